"""In FLARE's process at a party: it ends when the polydag command that started it is gone."""

from __future__ import annotations

import os
import threading
import time

from nvflare.apis.fl_component import FLComponent

from polydag.deployment.flare.relay import PARENT

_PAUSE = 0.5


class EndsWithItsParent(FLComponent):
    """Ends the process when its parent is gone; the processes of jobs end with this one by themselves."""

    def __init__(self) -> None:
        super().__init__()
        parent = os.getppid()
        if os.environ.get(PARENT) == str(parent):
            threading.Thread(target=self._watch, args=(parent,), daemon=True).start()

    @staticmethod
    def _watch(parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(_PAUSE)
        os._exit(1)
