"""Studies: from a description of data, method and settings to a graph and all that belongs to it.

`config` describes a study, one class for each shape of data; `methods` names what can learn; `pipeline` has
the one way of all studies: `load` reads, `run` learns.
"""

from polydag.studies.config.shapes import SHAPES, Config, PartiesConfig, TableConfig, TasksConfig
from polydag.studies.pipeline import load, run

__all__ = ["SHAPES", "Config", "PartiesConfig", "TableConfig", "TasksConfig", "load", "run"]
