"""Communication of the examiner process and the student process: messages, values, proxies."""
