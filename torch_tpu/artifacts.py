"""Programs of compiled graphs among the artifacts that torch.compiler saves and loads."""

from __future__ import annotations

import hashlib
import pickle

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactRecorder


@CacheArtifactFactory.register
class ProgramArtifact(CacheArtifact):
    """An entry of the compile cache."""

    @staticmethod
    def type() -> str:
        """The name of this kind among PyTorch's."""
        return "tpu_program"

    def populate_cache(self) -> None:
        """Keep the entry in this host's compile cache, if it is for the same target."""
        from torch_tpu.compiler import store

        store.adopt(*pickle.loads(self.content))


def record(namespace: str, key: bytes, payload: bytes, label: str) -> None:
    """Have save_cache_artifacts() save an entry."""
    name = hashlib.sha256(namespace.encode() + key).hexdigest()
    content = pickle.dumps((namespace, key, payload, label))
    CacheArtifactRecorder(ProgramArtifact.type(), name).record(content)
