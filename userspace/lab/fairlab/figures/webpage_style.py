# SPDX-License-Identifier: GPL-2.0
"""The style sheet of the report, for wide and narrow screens, light and dark.

Figures keep a white background in the dark scheme: their colours were chosen for it.  On a phone
the rows of a table of claims become cards, each cell with its heading beside it; tables of numbers
and pictures of many panels scroll sideways in their own frame, the page never does.
"""

CSS = """
:root {
  color-scheme: light dark;
  --ground: #ffffff; --card: #f6f7f9; --text: #1c2024; --faint: #5b6470; --line: #d9dde3;
  --good: #116a45; --good-ground: #e3f4ea; --bad: #a1260d; --bad-ground: #fdeae5;
  --none: #5b6470; --link: #0b5cad;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --card: #1d2126; --text: #e6e8eb; --faint: #a0a8b3; --line: #343a42;
    --good: #6fd6a3; --good-ground: #143325; --bad: #ff9e85; --bad-ground: #43190f;
    --none: #a0a8b3; --link: #7db8f5;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 1rem; }
body {
  margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 62rem;
  font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif;
  background: var(--ground); color: var(--text); overflow-wrap: break-word;
}
h1 { font-size: 1.75rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.35rem; margin: 3rem 0 .75rem; padding-bottom: .3rem;
  border-bottom: 2px solid var(--line); }
h3 { font-size: 1.12rem; line-height: 1.35; margin: 0 0 .25rem; }
p { margin: .5rem 0; }
a { color: var(--link); }
.faint { color: var(--faint); font-size: .9rem; }
.counts { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.25rem 0; padding: 0;
  list-style: none; }
.counts li { flex: 1 1 6rem; padding: .7rem .9rem; background: var(--card); border-radius: .6rem; }
.counts b { display: block; font-size: 1.6rem; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.good { color: var(--good); } .bad { color: var(--bad); } .none { color: var(--none); }
.verdict { display: inline-block; padding: .05rem .55rem; border-radius: 1rem; font-size: .85rem;
  font-weight: 600; white-space: nowrap; }
.verdict.good { background: var(--good-ground); } .verdict.bad { background: var(--bad-ground); }
.verdict.none { border: 1px solid var(--line); }
article { margin: 1.25rem 0 2.5rem; padding: 1.1rem 1.25rem; border: 1px solid var(--line);
  border-radius: .7rem; }
figure { margin: 1rem 0; }
figure img { display: block; width: 100%; height: auto; background: #ffffff;
  border-radius: .4rem; border: 1px solid var(--line); }
dl { margin: .75rem 0; display: grid; grid-template-columns: 7.5rem minmax(0, 1fr);
  gap: .3rem 1rem; }
dt { color: var(--faint); } dd { margin: 0; }
dd ul { margin: 0; padding-left: 1.1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { padding: .45rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; }
.numbers { margin-top: 1rem; }
.numbers :is(td, th):not(:first-child) { text-align: right; font-variant-numeric: tabular-nums; }
.families { max-width: 34rem; }
.numbers td, .numbers th { white-space: nowrap; }
.families tbody th { white-space: normal; }
.claims td:nth-child(1) { min-width: 14rem; }
.reason { margin: .25rem 0 0; color: var(--faint); font-size: .9rem; }
details { margin: .75rem 0 0; } summary { cursor: pointer; color: var(--faint); }
.conditions { font-size: .85rem; color: var(--faint); columns: 2; padding-left: 1.1rem; }
.toc { list-style: none; padding: 0; margin: 0; }
.toc li { display: flex; gap: .75rem; justify-content: space-between; align-items: baseline;
  padding: .4rem 0; border-bottom: 1px solid var(--line); }
@media (max-width: 44rem) {
  body { padding: 1rem .8rem 3rem; }
  h1 { font-size: 1.45rem; } h2 { margin-top: 2.25rem; }
  article { padding: .85rem .8rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: .1rem; } dd { margin-bottom: .5rem; }
  .conditions { columns: 1; }
  .panels { overflow-x: auto; } .panels img { width: 44rem; max-width: none; }
  .numbers :is(td, th):first-child { white-space: normal; min-width: 7rem; }
  .claims, .claims tbody, .claims tr, .claims td { display: block; width: 100%; }
  .claims thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
    clip-path: inset(50%); }
  .claims tr { margin: .6rem 0; padding: .6rem .7rem; background: var(--card);
    border-radius: .5rem; }
  .claims td { border: 0; padding: .15rem 0; }
  .claims td:nth-child(1) { min-width: 0; padding-bottom: .35rem; font-weight: 600; }
  .claims td:nth-child(1) .reason { font-weight: 400; }
  .claims td[data-label] { display: grid; grid-template-columns: 6rem minmax(0, 1fr); gap: .5rem; }
  .claims td[data-label]::before { content: attr(data-label); color: var(--faint); }
}
@media print { article { break-inside: avoid; } details { display: none; } }
"""
