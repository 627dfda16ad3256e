//! The house's rules: a file uses only the floors below its own, clap is named at the door only,
//! and nothing but `main` ends the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// The floors, from the ground up. A module may use those below it, and its neighbours as long as
/// they do not use it in turn.
const FLOORS: [&[&str]; 9] = [
    &["verdict", "clock", "seed"],
    &["scenario", "history"],
    &["plan", "summary"],
    &["topology", "link", "client", "lock", "workload", "store"],
    &["fault"],
    &["run", "check"],
    &["report", "progress"],
    &["app"],
    &["cli", "main"],
];

/// The crate's name, as `main` says it.
const CRATE: &str = "oversold";

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// One module using another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    file: String,
    line: usize,
    from: String,
    to: String,
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arrow {
            file,
            line,
            from,
            to,
        } = self;
        match (floor(from), floor(to)) {
            (Some(low), Some(high)) => write!(
                f,
                "{file}:{line}: {from} (floor {low}) uses {to} (floor {high}). Move what it needs \
                 down to floor {low} or lower, or hand it in from above"
            ),
            (low, _) => {
                let homeless = if low.is_none() { from } else { to };
                write!(
                    f,
                    "{file}:{line}: {from} uses {to}, and {homeless} stands on no floor. Give it \
                     one in tests/architecture.rs"
                )
            }
        }
    }
}

// What a file says, without its comments and texts.

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

/// Words, `::`, and every other character on its own.
fn tokens(source: &str) -> Vec<Token> {
    let bare = without_comments_and_texts(source);
    let mut found: Vec<Token> = Vec::new();
    let mut rest = bare.as_str();
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let word = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let length = match word {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            word => word,
        };
        let (text, after) = rest.split_at(length);
        if !text.trim().is_empty() {
            let text = text.to_owned();
            found.push(Token { text, line });
        }
        line += usize::from(first == '\n');
        rest = after;
    }
    found
}

/// Blanks them out and keeps the lines.
fn without_comments_and_texts(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let starts = |at: usize, what: &str| {
        what.chars()
            .eq(chars[at..].iter().copied().take(what.chars().count()))
    };
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        let end = if starts(at, "//") {
            until(at, &|at| chars[at] == '\n', chars.len())
        } else if starts(at, "/*") {
            block_comment_end(&chars, at)
        } else if let Some(end) = raw_text_end(&chars, at) {
            end
        } else if chars[at] == '"' {
            text_end(&chars, at, '"')
        } else if chars[at] == '\'' && is_char(&chars, at) {
            text_end(&chars, at, '\'')
        } else {
            out.push(chars[at]);
            at += 1;
            continue;
        };
        let lines = chars[at..end].iter().filter(|c| **c == '\n').count();
        out.push(' ');
        out.push_str(&"\n".repeat(lines));
        at = end;
    }
    out
}

fn until(from: usize, stop: &dyn Fn(usize) -> bool, end: usize) -> usize {
    (from..end).find(|at| stop(*at)).unwrap_or(end)
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of `r"..."` or `r#"..."#`, if one begins here.
fn raw_text_end(chars: &[char], from: usize) -> Option<usize> {
    let in_word = from > 0 && (chars[from - 1].is_alphanumeric() && chars[from - 1] != 'b');
    if chars[from] != 'r' || in_word {
        return None;
    }
    let hashes = chars[from + 1..].iter().take_while(|c| **c == '#').count();
    let open = from + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closed = |at: usize| {
        chars[at] == '"'
            && chars[at + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes
    };
    Some((until(open + 1, &closed, chars.len()) + 1 + hashes).min(chars.len()))
}

fn text_end(chars: &[char], from: usize, quote: char) -> usize {
    let mut at = from + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `'x'` and `'\n'`, and not the lifetime `'a`.
fn is_char(chars: &[char], at: usize) -> bool {
    chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'')
}

// Which modules a file uses.

/// The module path of a file: `src/lock/mod.rs` is `lock`, `src/lock/none.rs` is `lock::none`.
fn module_path(file: &Path) -> Vec<String> {
    let mut path: Vec<String> = file
        .with_extension("")
        .iter()
        .skip(1)
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    path
}

/// Every arrow out of a file: `crate::x`, `crate::{x, y::z}` over any number of lines, in `use`
/// and in the middle of code, `super::x` where that is the crate, and `oversold::x` in `main`.
fn arrows(file: &Path, source: &str) -> Vec<Arrow> {
    let path = module_path(file);
    let from = path.first().cloned().unwrap_or_default();
    let tokens = tokens(source);
    let mut arrows = Vec::new();
    for at in 0..tokens.len() {
        let Some(after) = crate_root_ends(&tokens, at, path.len(), from == "main") else {
            continue;
        };
        for to in first_names(&tokens, after) {
            let known = floor(&to.text).is_some();
            // Names that are no module come from `super` in a nested module, or are macros.
            let super_name = tokens[at].text == "super" && !known;
            if to.text != from && to.text != "*" && !super_name {
                arrows.push(Arrow {
                    file: file.display().to_string(),
                    line: to.line,
                    from: from.clone(),
                    to: to.text,
                });
            }
        }
    }
    arrows
}

/// Where the names begin if a path from the crate's root begins at this token.
fn crate_root_ends(tokens: &[Token], at: usize, depth: usize, main: bool) -> Option<usize> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let follows = at > 0 && (text(at - 1) == "::" || text(at - 1) == "$");
    if follows {
        return None;
    }
    match text(at) {
        "crate" if text(at + 1) == "::" => Some(at + 2),
        CRATE if main && text(at + 1) == "::" => Some(at + 2),
        "super" => {
            let pairs = (at..).step_by(2);
            let supers = pairs.take_while(|at| text(*at) == "super" && text(*at + 1) == "::");
            let supers = supers.count();
            (supers >= depth && supers > 0).then_some(at + 2 * supers)
        }
        _ => None,
    }
}

/// The first names of a use tree: of `{a::{b, c}, d}` that is a and d.
fn first_names(tokens: &[Token], at: usize) -> Vec<Token> {
    let Some(first) = tokens.get(at) else {
        return vec![];
    };
    if first.text != "{" {
        return vec![first.clone()];
    }
    let mut names = Vec::new();
    let (mut depth, mut expected) = (0, false);
    for token in &tokens[at..] {
        match token.text.as_str() {
            "{" => {
                depth += 1;
                expected = depth == 1;
            }
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "," => expected = depth == 1,
            _ if expected => {
                names.push(token.clone());
                expected = false;
            }
            _ => {}
        }
    }
    names
}

fn upward(arrows: &[Arrow]) -> Vec<&Arrow> {
    let up = |arrow: &&Arrow| match (floor(&arrow.from), floor(&arrow.to)) {
        (Some(from), Some(to)) => to > from,
        _ => true,
    };
    arrows.iter().filter(up).collect()
}

/// Neighbours that use each other, by whatever way round.
fn circles(arrows: &[Arrow]) -> Vec<String> {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for arrow in arrows {
        uses.entry(&arrow.from).or_default().insert(&arrow.to);
    }
    let reached = |from: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = uses.get(from).into_iter().flatten().copied().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(uses.get(next).into_iter().flatten());
            }
        }
        seen
    };
    uses.keys()
        .filter(|module| reached(module).contains(**module))
        .map(|module| {
            format!(
                "{module} uses itself by way of its neighbours: {:?}",
                uses[module]
            )
        })
        .collect()
}

// The house as it stands.

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file, by its path from the package's folder, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of src/ can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file can be read");
                let name = path.strip_prefix(root()).expect("it lies in the package");
                files.push((name.to_owned(), text));
            }
        }
    }
    files.sort();
    assert!(files.len() > 40, "only {} files in src/", files.len());
    files
}

fn all_arrows() -> Vec<Arrow> {
    let sources = sources();
    let arrows = sources.iter().flat_map(|(file, text)| arrows(file, text));
    arrows.collect()
}

fn assert_none<T: ToString>(what: &str, found: &[T]) {
    let lines: Vec<String> = found.iter().map(T::to_string).collect();
    assert!(found.is_empty(), "{what}:\n  {}", lines.join("\n  "));
}

#[test]
fn no_arrow_runs_up() {
    let arrows = all_arrows();
    assert!(arrows.len() > 100, "only {} arrows seen", arrows.len());
    assert_none("a file may use only the floors below it", &upward(&arrows));
}

#[test]
fn neighbours_do_not_use_each_other_in_a_circle() {
    assert_none("modules that hang together", &circles(&all_arrows()));
}

#[test]
fn every_module_stands_on_a_floor() {
    let lacking: Vec<String> = sources()
        .iter()
        .filter_map(|(file, _)| module_path(file).first().cloned())
        .filter(|module| module != "lib" && floor(module).is_none())
        .collect();
    assert_none("give these a floor in tests/architecture.rs", &lacking);
}

#[test]
fn every_file_begins_by_saying_what_it_is_for() {
    let silent: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(file, _)| format!("{}:1: begin with a `//!` line", file.display()))
        .collect();
    assert_none("a file's first line says what it is for", &silent);
}

#[test]
fn clap_is_named_at_the_door_only() {
    let doors = [
        "src/cli.rs",
        "src/cli/external.rs",
        "src/cli/flags.rs",
        "src/cli/soak.rs",
        "src/main.rs",
    ];
    let named = places(|token, _| token.text == "clap" || token.text == "clap_complete");
    let inside = named.into_iter();
    let inside: Vec<_> = inside
        .filter(|(file, _)| !doors.contains(&file.as_str()))
        .collect();
    let told = inside.iter().map(|(file, line)| {
        format!("{file}:{line}: names clap; take a plain type, which cli.rs fills in")
    });
    assert_none(
        "only cli.rs and main.rs know clap",
        &told.collect::<Vec<_>>(),
    );
}

#[test]
fn nothing_in_the_library_ends_the_program() {
    let exits = places(|token, before| {
        let called = ["exit", "abort"].contains(&token.text.as_str());
        let of_process = before.contains(&"process");
        called && of_process
    });
    let inside = exits.iter().filter(|(file, _)| file != "src/main.rs");
    let told = inside.map(|(file, line)| {
        format!("{file}:{line}: ends the program; return a verdict::Exit or an app::Failure")
    });
    assert_none("only main decides the exit code", &told.collect::<Vec<_>>());
}

/// Where a token is found that a test looks for, given the six before it (enough for a path and
/// for a use group).
fn places(wanted: impl Fn(&Token, &[&str]) -> bool) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (file, text) in sources() {
        let tokens = tokens(&text);
        for (at, token) in tokens.iter().enumerate() {
            let before = &tokens[at.saturating_sub(6)..at];
            // A new statement has nothing to do with the one before.
            let begins = before.iter().rposition(|t| t.text == ";");
            let before = &before[begins.map_or(0, |at| at + 1)..];
            let before: Vec<&str> = before.iter().map(|t| t.text.as_str()).collect();
            if wanted(token, &before) {
                found.push((file.display().to_string(), token.line));
            }
        }
    }
    found
}

// These rules, put to the test themselves.

fn upward_in(file: &str, source: &str) -> Vec<String> {
    let arrows = arrows(Path::new(file), source);
    upward(&arrows).iter().map(ToString::to_string).collect()
}

#[test]
fn an_upward_arrow_is_caught_and_told_with_its_way_out() {
    let told = upward_in(
        "src/lock/new.rs",
        "//! New.\n\nuse crate::report::Report;\n",
    );
    assert_eq!(
        told,
        [
            "src/lock/new.rs:3: lock (floor 3) uses report (floor 6). Move what it needs down to \
             floor 3 or lower, or hand it in from above"
        ]
    );
}

#[test]
fn an_upward_arrow_is_caught_in_a_use_over_many_lines() {
    let source = "use crate::{\n    clock::{Clock, nanos},\n    client, // { a comment }\n    \
                  app::{self, Session},\n    cli,\n};\n";
    let told = upward_in("src/check/new.rs", source);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("src/check/new.rs:4: check (floor 5) uses app (floor 7)"));
    assert!(told[1].starts_with("src/check/new.rs:5: check (floor 5) uses cli (floor 8)"));
}

#[test]
fn an_upward_arrow_is_caught_in_the_middle_of_code_and_behind_super() {
    let code = "fn f() { let x = crate::run::run(); }";
    assert_eq!(upward_in("src/store/new.rs", code).len(), 1);
    assert_eq!(
        upward_in("src/plan.rs", "use super::check::Judge;").len(),
        1
    );
    let deep = "use super::super::check::Judge;";
    assert_eq!(upward_in("src/history/file.rs", deep).len(), 1);
    assert_eq!(upward_in("src/check/new.rs", "use oversold::app;"), [""; 0]);
    assert_eq!(
        upward_in("src/plan.rs", "mod tests { use super::*; }"),
        [""; 0]
    );
}

#[test]
fn a_module_without_a_floor_is_caught() {
    let told = upward_in("src/util.rs", "use crate::clock::Time;");
    assert_eq!(
        told,
        [
            "src/util.rs:1: util uses clock, and util stands on no floor. Give it one in \
             tests/architecture.rs"
        ]
    );
    assert_eq!(upward_in("src/plan.rs", "use crate::util::help;").len(), 1);
}

#[test]
fn an_arrow_down_or_within_a_module_is_not_caught() {
    let source = "use crate::{clock::Time, scenario};\nuse crate::history::Event;\nuse super::x;\n\
                  pub(crate) fn f() -> crate::lock::Acquire {}\n";
    assert_eq!(upward_in("src/lock/new.rs", source), [""; 0]);
    assert_eq!(
        upward_in("src/main.rs", "use oversold::cli::{self, Cli};"),
        [""; 0]
    );
}

#[test]
fn comments_and_texts_are_no_arrows() {
    let source = "// use crate::app;\n/* crate::app /* crate::cli */ crate::app */\n\
                  const A: &str = \"crate::app \\\" crate::app\";\n\
                  const B: &str = r#\"crate::app \" crate::app\"#;\nconst C: char = '\"';\n\
                  fn f<'a>(x: &'a str) {} // crate::app '\n";
    assert_eq!(upward_in("src/lock/new.rs", source), [""; 0]);
    // And the lines are still counted after them.
    let after = format!("{source}use crate::app;\n");
    assert!(upward_in("src/lock/new.rs", &after)[0].starts_with("src/lock/new.rs:7:"));
}

#[test]
fn two_neighbours_that_use_each_other_are_caught() {
    let one = arrows(Path::new("src/store/new.rs"), "use crate::workload::Item;");
    let other = arrows(Path::new("src/workload/new.rs"), "use crate::store::Store;");
    assert_eq!(circles(&one), [""; 0]);
    assert_eq!(circles(&[one, other].concat()).len(), 2);
}
