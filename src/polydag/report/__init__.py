"""The interactive report of a run: one HTML file that needs neither a network nor polydag."""

from polydag.report.page import page
from polydag.report.run_files import RunFiles, read_folder
from polydag.report.view import View, view_of
from polydag.report.widget import explore

__all__ = ["RunFiles", "View", "explore", "page", "read_folder", "view_of"]
