"""The report travels as JSON."""

from sweeper.training.report import ModelReport


def test_a_report_comes_back_unchanged(tmp_path):
    report = ModelReport(
        parameters=10,
        trainable_parameters=2,
        adapted_modules=("a", "b"),
        embedding_rows=4,
        max_positions=None,
        tied_embeddings=True,
    )
    (tmp_path / "model.json").write_text(report.to_json())
    assert ModelReport.read(tmp_path / "model.json") == report
