"""The examination of one notebook: the student's process and the examiner's."""
