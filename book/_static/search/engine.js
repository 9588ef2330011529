// Search among the sections of the book: terms in several forms, slips of the keyboard, a ranking. It knows nothing
// of the page. The index comes from _ext/section_search.py; docs/decisions/0028-search.md explains the ranking.
const BookSearch = (() => {
  const FIELDS = { title: 5, heading: 12, page: 1, name: 8, text: 1 };
  const KINDS = { chapter: 1, glossary: 0.7, reference: 0.75, bibliography: 0.4, api: 0.4 };
  const LONG = 900; // letters: the average section
  const STOP = new Set(
    ("a an and are as at be by can do does for from has have how i if in into is it its not of on or that the their " +
      "there these this to was what when where which who why will with you").split(" "),
  );

  let pages = [];
  let sections = []; // {page, level, anchor, heading, text, path}
  let postings = new Map(); // term: Map of section number to weighted count
  let vocabulary = new Map(); // word: how often the book has it

  // Words and terms: a term is a word in lower case without accents and endings.

  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  function stem(word) {
    if (/[\d_]/.test(word) || word.length < 4) return word;
    let base = word.replace(/(ss)es$/, "$1").replace(/ies$/, "y").replace(/([^su])s$/, "$1");
    const cut = base.replace(/(ing|ed|er)$/, "");
    if (cut !== base && /[aeiouy]/.test(cut) && cut.length > 2) base = cut.replace(/([^aeiouls])\1$/, "$1");
    base = base.replace(/(is|iz)ation$/, "iz").replace(/isation$/, "iz").replace(/is(e?)$/, "iz$1");
    return base.length > 3 ? base.replace(/e$/, "").replace(/y$/, "i") : base;
  }

  const WORD = /[\p{L}\p{M}\p{N}_]+/gu;
  const PART = /\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{M}]+|\p{N}+/gu;
  const termOf = (word) => stem(plain(word));
  const known = new Map();

  // The terms of a word, itself first. A name in code, snake_case or CamelCase, has those of its parts too.
  function termsOf(word) {
    let found = known.get(word);
    if (!found) {
      const name = word.includes("_") || /\p{Ll}\p{Lu}/u.test(word);
      known.set(word, (found = [...new Set([word, ...(name ? word.match(PART) ?? [] : [])].map(termOf))]));
    }
    return found;
  }

  function receive(index) {
    pages = index.pages.map(([url, title, kind]) => ({ url, title, kind }));
    const open = []; // the headings above
    sections = index.sections.map(([page, level, anchor, heading, text, names], number) => {
      open.length = level - 1;
      open[level - 1] = heading;
      const add = (content, weight) => {
        const all = content.match(WORD) ?? [];
        for (const word of all) {
          const small = plain(word);
          vocabulary.set(small, (vocabulary.get(small) ?? 0) + 1);
          for (const term of termsOf(word)) {
            let found = postings.get(term);
            if (!found) postings.set(term, (found = new Map()));
            found.set(number, (found.get(number) ?? 0) + weight);
          }
        }
      };
      // Long texts repeat their words.
      add(text, FIELDS.text / (0.6 + (0.4 * text.length) / LONG));
      add(heading, FIELDS.heading);
      add(pages[page].title, level > 1 ? FIELDS.page : FIELDS.title);
      add(names.join(" "), FIELDS.name);
      return { page: pages[page], level, anchor, heading, text, path: open.slice(0, level - 1).filter(Boolean) };
    });
  }

  // Slips: how many letters are missing, added, wrong or swapped; more than `most` counts as `most` + 1.
  function distance(a, b, most) {
    if (Math.abs(a.length - b.length) > most) return most + 1;
    let before = [];
    let last = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const row = [i];
      for (let j = 1; j <= b.length; j++) {
        row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] !== b[j - 1]));
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
      }
      if (Math.min(...row) > most) return most + 1;
      [before, last] = [last, row];
    }
    return last[b.length];
  }

  // The words of the book with at most this distance from one that it does not have, the best guess first: the
  // nearest, and of these one with the same first letter or a frequent one.
  function near(word, most) {
    const found = [];
    for (const [other, count] of vocabulary) {
      const far = distance(word, other, most);
      if (far <= most) found.push([other, far - (other[0] === word[0] ? 0.5 : 0) - Math.min(0.45, Math.log10(count) / 8)]);
    }
    return found.sort((x, y) => x[1] - y[1]).map(([other]) => other);
  }

  // The terms that a word of the query stands for, with weights: itself, longer words that it begins, or corrections.
  function expand(word, unfinished) {
    const term = termOf(word);
    const found = new Map();
    if (postings.has(term)) found.set(term, 1);
    if (unfinished && term.length > 2 && !/^\d/.test(term)) {
      const start = plain(word);
      for (const other of postings.keys()) {
        if (other !== term && (other.startsWith(start) || other.startsWith(term)))
          found.set(other, (found.size && postings.has(term) ? 0.3 : 0.8) * (term.length / other.length));
      }
    }
    if (found.size) return { word, terms: found };
    const small = plain(word);
    const guesses = near(small, small.length < 4 ? 0 : small.length < 8 ? 1 : 2).slice(0, 3);
    guesses.forEach((guess, place) => found.has(termOf(guess)) || found.set(termOf(guess), 0.9 / (1 + 2 * place)));
    return { word, terms: found, corrected: guesses[0] };
  }

  // Results for a query, the best first: {section, score}; the words as understood; and corrections that were made.
  function search(query, limit = 20) {
    const typed = query.match(WORD) ?? [];
    const content = typed.filter((word) => !STOP.has(plain(word)));
    const asked = (content.length ? content : typed).slice(0, 12);
    const unfinished = /[\p{L}\p{N}_]$/u.test(query);
    const wanted = asked.map((word, place) => expand(word, unfinished && place === asked.length - 1));
    const scores = new Map();
    const hits = new Map();
    for (const { terms } of wanted) {
      const best = new Map(); // one word of the query counts once in a section
      for (const [term, weight] of terms) {
        const found = postings.get(term);
        const rarity = Math.log(1 + sections.length / found.size);
        for (const [number, count] of found) {
          const score = (weight * rarity * count) / (count + 3);
          if (score > (best.get(number) ?? 0)) best.set(number, score);
        }
      }
      for (const [number, score] of best) {
        scores.set(number, (scores.get(number) ?? 0) + score);
        hits.set(number, (hits.get(number) ?? 0) + 1);
      }
    }
    const terms = wanted.map((each) => new Set(each.terms.keys()));
    const corrected = wanted.some((each) => each.corrected);
    const understood = corrected ? wanted.map((each) => each.corrected ?? each.word).join(" ") : query.trim();
    const ranked = [...scores].map(([number, score]) => {
      const section = sections[number];
      return { section, score: score * KINDS[section.page.kind] * (hits.get(number) / wanted.length) ** 2 };
    });
    const descending = (x, y) => y.score - x.score;
    const first = ranked.sort(descending).slice(0, 60); // the others are too far behind
    for (const result of first) result.score *= closeness(result.section, terms, plain(understood));
    // Of the chapters with the query in their title, the first one introduces the topic.
    const place = ({ section }) => sections.indexOf(section);
    const [introduction] = first.filter(({ section: { level, page, heading } }) =>
      level === 1 && page.kind === "chapter" && share(heading, terms) > 0).sort((x, y) => place(x) - place(y));
    if (introduction) introduction.score *= 1.3;
    return {
      results: [...first.sort(descending), ...ranked.slice(60)].slice(0, limit),
      count: ranked.length,
      terms: new Set(terms.flatMap((each) => [...each])),
      corrected: corrected ? understood : "",
    };
  }

  // What the places of the words add: a heading that consists of them, or a text that has them next to each other.
  function closeness(section, terms, query) {
    let factor = section.path.at(-1) === "Misconceptions" ? 0.85 : 1; // its headings are claims that are wrong
    const part = share(section.heading, terms);
    if (part > 0) factor *= 1.5 + 1.2 * part;
    if (plain(section.heading).includes(query)) factor *= 1.3;
    else if (terms.length > 1 && adjacent(section.text, terms)) factor *= 1.2;
    return factor;
  }

  // How much of a heading, or of one side of its colon, the query is: 1 if it consists of it, 0 if a word is missing.
  function share(heading, terms) {
    return Math.max(...[heading, ...heading.split(": ")].map((part) => {
      const all = (part.match(WORD) ?? []).map((word) => termsOf(word)[0]);
      const content = all.filter((term) => !STOP.has(term) && !/^\d+$/.test(term));
      return terms.every((each) => content.some((term) => each.has(term))) ? terms.length / content.length : 0;
    }));
  }

  function adjacent(text, terms) {
    let next = 0;
    for (const word of text.match(WORD) ?? []) {
      const term = termsOf(word)[0];
      next = terms[next].has(term) ? next + 1 : terms[0].has(term) ? 1 : 0;
      if (next === terms.length) return true;
    }
    return false;
  }

  // The matches in a text: [start, end, term].
  function matches(text, terms) {
    const found = [];
    for (const { 0: word, index } of text.matchAll(WORD)) {
      const term = termsOf(word).find((each) => terms.has(each));
      if (term) found.push([index, index + word.length, term]);
    }
    return found;
  }

  // A piece of the text as [words, whether they match] pairs: the piece that has most of the terms.
  function excerpt(text, terms, width = 180) {
    const found = matches(text, terms);
    let start = 0;
    let most = 0;
    for (const place of [0, ...found.map((each) => each[0])]) {
      const inside = found.filter(([from, to]) => from >= place && to <= place + width - 40);
      const variety = new Set(inside.map((each) => each[2])).size;
      if (variety > most) [most, start] = [variety, place];
    }
    start = Math.max(0, start - 40);
    if (start > 0) start = text.indexOf(" ", start) + 1;
    let end = Math.min(text.length, start + width);
    if (end < text.length) end = Math.max(text.lastIndexOf(" ", end), start + 1);
    const piece = marked(text.slice(start, end), terms);
    if (start > 0) piece.unshift(["… ", false]);
    if (end < text.length) piece.push([" …", false]);
    return piece;
  }

  function marked(text, terms) {
    const pieces = [];
    let done = 0;
    for (const [start, end] of matches(text, terms)) {
      if (start > done) pieces.push([text.slice(done, start), false]);
      pieces.push([text.slice(start, end), true]);
      done = end;
    }
    if (done < text.length) pieces.push([text.slice(done), false]);
    return pieces;
  }

  // For a query that nothing answers: words of the book that are near to its words in spelling.
  function suggest(query) {
    const found = [];
    for (const word of plain(query).match(WORD) ?? [])
      found.push(...near(word, Math.min(3, Math.floor(word.length / 2.5))).slice(0, 3));
    return [...new Set(found)].slice(0, 4);
  }

  return { receive, search, excerpt, marked, suggest };
})();
