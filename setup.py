"""What pyproject.toml cannot say: a wheel holds the pipelines and schemas, in ``daskfs/bundled_files``."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithFiles(build_py):
    """Copies the folders beside the package into it, unless the package is used where it lies."""

    def run(self) -> None:
        """Copy."""
        super().run()
        if not self.editable_mode:
            for name, pattern in (("pipelines", "*.yaml"), ("data_schemas", "*")):
                folder = Path(self.build_lib, "daskfs", "bundled_files", name)
                folder.mkdir(parents=True, exist_ok=True)
                for path in Path(__file__).with_name(name).glob(pattern):
                    shutil.copyfile(path, folder / path.name)


setup(cmdclass={"build_py": WithFiles})
