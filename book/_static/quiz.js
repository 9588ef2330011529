// The score of a quiz, kept in this browser only: the first option that a reader opens is the answer. Options stay
// what they are without this script: they open and explain themselves. All answers can be saved as a CSV file.
(() => {
  const KEY = "attentively.quiz";
  const page = location.pathname.split("/").pop().replace(/\.html$/, "");
  const quizzes = [...document.querySelectorAll("div.quiz")];
  const words = (node) => node.textContent.replace(/\\[()]/g, "").replace(/\s+/g, " ").trim();

  const load = () => {
    try {
      return JSON.parse(localStorage.getItem(KEY)) ?? {};
    } catch {
      return {};
    }
  };
  const change = (edit) => {
    const all = load();
    edit(all);
    localStorage.setItem(KEY, JSON.stringify(all));
  };

  // The texts are read before equations are drawn. A question that has changed in the book since it was answered
  // counts as not answered.
  const questions = quizzes.map((quiz) => {
    const id = quiz.getAttribute("aria-labelledby");
    const options = [...quiz.querySelectorAll("details.quiz-option")];
    const texts = new Map(options.map((option) => [option, words(option.querySelector("summary"))]));
    return { quiz, id, text: words(document.getElementById(id)), options: texts };
  });
  const answers = (all = load()) =>
    questions.map(({ id, text }) => (all[page]?.[id]?.question === text ? all[page][id] : undefined)).filter(Boolean);

  function answer({ id, text, options }, option) {
    change((all) => {
      const here = (all[page] ??= {});
      if (here[id]?.question === text) return; // the first answer counts
      here[id] = {
        question: text,
        answer: options.get(option),
        right: option.classList.contains("quiz-right"),
        date: new Date().toISOString().slice(0, 10),
      };
    });
    show();
  }

  // The file: one row an answer, with every chapter that has one.
  function table(all) {
    const cell = (value) => `"${String(value).replaceAll('"', '""')}"`;
    const rows = [["chapter", "number", "question", "answer", "right", "date"]];
    for (const chapter of Object.keys(all).sort()) {
      for (const [id, each] of Object.entries(all[chapter])) {
        rows.push([chapter, id.replace("quiz-", ""), each.question, each.answer, each.right ? "yes" : "no", each.date]);
      }
    }
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  function save() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", table(load())], { type: "text/csv" }));
    link.download = "attentively-quiz.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const box = document.createElement("div");
  box.className = "quiz-score";
  const score = document.createElement("p");
  score.setAttribute("role", "status");
  const button = (text, act) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
    made.addEventListener("click", act);
    return made;
  };
  const buttons = document.createElement("p");
  buttons.append(
    button("Save all my answers (CSV)", save),
    " ",
    button("Clear the answers of this chapter", () => {
      change((all) => delete all[page]);
      for (const { options } of questions) for (const option of options.keys()) option.open = false;
      show();
      questions[0].quiz.querySelector("summary").focus();
    }),
  );
  box.append(score, buttons);

  function show() {
    const given = answers();
    const right = given.filter((each) => each.right).length;
    buttons.hidden = !given.length;
    score.textContent = given.length
      ? `Your score: ${right} of ${given.length} right at the first try, ${questions.length} questions in all. ` +
        "It is kept only in this browser."
      : "The first option that you open counts as your answer. The score is kept only in this browser.";
  }

  try {
    change(() => {});
  } catch {
    return; // the browser keeps nothing for this page: no score
  }
  for (const question of questions) {
    for (const option of question.options.keys()) {
      option.addEventListener("toggle", () => option.open && answer(question, option));
    }
  }
  quizzes.at(-1).after(box);
  show();
})();
