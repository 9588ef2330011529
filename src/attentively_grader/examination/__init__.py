"""The examination of one notebook by two processes, the student process and the examiner."""
