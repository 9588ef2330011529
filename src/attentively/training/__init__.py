"""Training: losses, schedules, objectives, and the trainer."""

from attentively import exporter

__getattr__ = exporter(
    __name__,
    {
        "trainer": [
            "Precision",
            "Record",
            "Trainer",
            "TrainingConfig",
            "best_record",
            "refuse_earlier_run",
            "validation_loss",
        ],
    },
)
