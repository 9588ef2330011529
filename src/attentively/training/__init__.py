"""Training: losses, schedules, objectives, and the trainer."""

from attentively import exporter

__getattr__ = exporter(
    __name__,
    {
        "trainer": ["Trainer", "validation_loss"],
        "training_config": ["Precision", "TrainingConfig"],
        "run_folder": ["Record", "best_record", "refuse_earlier_run"],
    },
)
