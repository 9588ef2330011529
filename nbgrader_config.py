"""How nbgrader works on this course: its own commands, `make release` and `make grade` alike."""

c = get_config()

c.CourseDirectory.course_id = "attentively"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"

# An unsolved part raises, so it scores 0; the checks know this exception when it is bare.
c.ClearSolutions.code_stub = {
    "python": "raise NotImplementedError  # replace this line with your code"
}

# nbgrader copies every file that stands beside a notebook, be it a solution in Markdown. Here a
# side file is released only if it is listed: {"08_additive_attention": ["data.csv"]}.
c.Release.side_files = {}
c.GenerateAssignment.post_convert_hook = "attentively_grader.course.release.tidy_released"

# The checks read the cases and answers of an assignment here. Only the trusted process gets them.
c.Grading.test_files = ["questions.py"]
# The results of the instructor's answers, computed once for the whole class.
c.Grading.prepare_tests = "attentively.checks.recordings:prepare"
# The checks that the notebooks import lie here: where these folders change, all is graded anew.
c.Grading.depends_on = ["src"]

# These cells show what the answers do; no graded cell needs them, so grading leaves them out.
c.Grading.demonstrations = [
    *("*-use", "*-faulty", "*-logs", "*-reports"),
    *("from-pytorch-names", "merge-given", "progress-code"),
]

# For a cell that does not end; the parts after it are graded all the same.
c.Execute.timeout = 120
# Only the kernel's own errors on the terminal, not that it speaks to this machine unencrypted.
c.Execute.extra_arguments = ["--log-level=40"]

# nbgrader takes points away for any text on stderr, so for a warning too. An error is recorded
# as an error in any case, so what stands on stderr is dropped before scores are read.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = "^"

# `nbgrader zip_collect` reads the student's id from the path of each unpacked file: the number in
# the downloads of Moodle and Canvas, the folder in what `attentively submit --zip` packs.
# `attentively collect` reads the same archives and also keeps names, versions and other files.
c.FileNameCollectorPlugin.named_regexp = (
    r".*?/extracted/(?:[^/]+/)*?"
    r"(?:[^/]*?_(?=[0-9]+_(?:assignsubmission_file|[0-9]+_))|(?=[^/]+/[0-9]{2}_\w+/[^/]+$))"
    r"(?P<student_id>[0-9]+(?=_)|[A-Za-z0-9_][A-Za-z0-9_.-]*(?=/))"
    r"(?:_assignsubmission_file_?|_[0-9]+_)?(?:[^/]*/)*"
    r"(?P<file_id>[^/]+?)(?:-[0-9]+| \([0-9]+\))?\.ipynb$"
)
