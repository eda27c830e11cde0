"""What a trial ran on."""

import torch

from sweeper.training.environment import describe_environment


def test_the_fields_say_what_may_change_the_last_bit(build, monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    fields = describe_environment(build.tiny_llama(), build.training_options(), micro_batch=4)
    assert fields["torch"] == torch.__version__
    assert (fields["device"], fields["dtype"], fields["precision"]) == ("cpu", "float32", "float32")
    assert (fields["threads"], fields["micro_batch"], fields["ranks"]) == ("1", "4", "1")
    assert (fields["deterministic"], fields["tf32"]) == ("no", "no")
    assert fields["attention"] == "sdpa"
    assert fields["mkl_cbwr"] == "COMPATIBLE"
    assert "onednn_max_cpu_isa" not in fields
    assert {"cpu", "cpu_capability", "python", "transformers", "peft"} <= set(fields)


def test_determinism_is_read_from_torch_not_from_a_wish(build):
    torch.use_deterministic_algorithms(True)
    try:
        fields = describe_environment(build.tiny_llama(), build.training_options(), micro_batch=4)
    finally:
        torch.use_deterministic_algorithms(False)
    assert fields["deterministic"] == "yes"
