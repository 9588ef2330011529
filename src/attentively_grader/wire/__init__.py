"""The wire between the examiner's process and the student's: messages, values, proxies."""
