# SPDX-License-Identifier: GPL-2.0
"""Builds the program with the tree's Makefile, and puts it into the wheel."""

import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1, as in Debian 12
    from wheel.bdist_wheel import bdist_wheel

TOP = Path(__file__).resolve().parents[3]
PROGRAM = "build/slbnsim/wheel/slbnsim"


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not (TOP / "userspace/build.mk").is_file():
            raise SystemExit("slbnsim: build the wheel in fairpath's source tree")
        if subprocess.run(["make", "-s", "-C", TOP, PROGRAM], check=False).returncode:
            raise SystemExit("slbnsim: the program could not be built; see above")
        target = Path(self.build_lib, "slbnsim/bin/slbnsim")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(TOP / PROGRAM, target)


class Wheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """For any Python, on this kind of machine."""
        return ("py3", "none", super().get_tag()[2])


class Source(sdist):
    def run(self) -> None:
        raise SystemExit("slbnsim: its source is the project's: use make dist")


class Binary(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(
    cmdclass={"build_py": Build, "bdist_wheel": Wheel, "sdist": Source},
    distclass=Binary,
)
