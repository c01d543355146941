//! Rules to Lark: regular expressions, and rules of lexemes.

use super::{
    GrammarError,
    chars::Chars,
    is_finite,
    lexemes::{Places, comparable},
    parse::Expr,
};

/// The longest regular expression, in bytes: rules are written out wherever they are named.
const MAX_REGEX: usize = 256 << 10;

/// The regular expression of a part without recursion.
///
/// # Errors
/// It would be too long.
pub fn regex(expr: &Expr, rules: &[Expr]) -> Result<String, GrammarError> {
    let mut out = String::new();
    write(expr, rules, &mut out)?;
    Ok(out)
}

fn write(expr: &Expr, rules: &[Expr], out: &mut String) -> Result<(), GrammarError> {
    if out.len() > MAX_REGEX {
        let detail = format!("with its rules written out, the grammar is longer than {MAX_REGEX} bytes");
        return Err(GrammarError::Compile(detail));
    }
    match expr {
        Expr::Chars(chars) => out.push_str(&chars.regex()),
        Expr::Rule(rule) => write(&rules[*rule], rules, out)?,
        Expr::Seq(parts) => parts.iter().try_for_each(|part| match part {
            Expr::Alt(_) | Expr::Rule(_) => grouped(part, rules, out),
            _ => write(part, rules, out),
        })?,
        Expr::Alt(parts) => {
            for (i, part) in parts.iter().enumerate() {
                out.push_str(if i > 0 { "|" } else { "" });
                write(part, rules, out)?;
            }
        }
        Expr::Repeat(part, min, max) => {
            grouped(part, rules, out)?;
            out.push_str(&bounds(*min, *max));
        }
    }
    Ok(())
}

fn grouped(expr: &Expr, rules: &[Expr], out: &mut String) -> Result<(), GrammarError> {
    out.push_str("(?:");
    write(expr, rules, out)?;
    out.push(')');
    Ok(())
}

fn bounds(min: u32, max: Option<u32>) -> String {
    match (min, max) {
        (0, None) => "*".into(),
        (1, None) => "+".into(),
        (0, Some(1)) => "?".into(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    }
}

/// A grammar of lexemes, in the order in which the rules name them.
struct Cut<'a> {
    rules: &'a [Expr],
    finite: Vec<bool>,
    /// Parts that are not lexemes: their characters are.
    split: Vec<Expr>,
    lexemes: Vec<Expr>,
    /// The grammar once more, with lexemes in place of what they stand for.
    bodies: Vec<Node>,
}

/// A part of a rule, made of lexemes.
enum Node {
    Lexeme(usize),
    /// A body, by number.
    Body(usize),
    Seq(Vec<Node>),
    Alt(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
}

/// The recursive grammar in Lark.
///
/// # Errors
/// A lexeme that would be too long.
pub fn lark(rules: &[Expr], root: usize, recursive: &[bool]) -> Result<String, GrammarError> {
    let finite: Vec<bool> = recursive.iter().map(|recursive| !recursive).collect();
    let mut cut = Cut { rules, finite, split: Vec::new(), lexemes: Vec::new(), bodies: Vec::new() };
    loop {
        cut.lexemes.clear();
        cut.bodies = rules.iter().map(|_| Node::Seq(Vec::new())).collect();
        for (number, rule) in rules.iter().enumerate().filter(|(number, _)| recursive[*number]) {
            cut.bodies[number] = cut.node(rule);
        }
        let wrong = cut.wrong();
        if wrong.is_empty() {
            return cut.write(root);
        }
        cut.split.extend(wrong);
    }
}

impl Cut<'_> {
    /// A part of a rule as lexemes and rules.
    fn node(&mut self, expr: &Expr) -> Node {
        if is_finite(expr, &self.finite) && !self.split.contains(expr) {
            return self.lexeme(expr);
        }
        match expr {
            Expr::Chars(_) => self.lexeme(expr),
            Expr::Rule(rule) if self.finite[*rule] => self.node(&self.rules[*rule]),
            Expr::Rule(rule) => Node::Body(*rule),
            Expr::Seq(parts) => Node::Seq(self.runs(parts)),
            Expr::Alt(parts) => Node::Alt(parts.iter().map(|part| self.node(part)).collect()),
            Expr::Repeat(part, min, max) => Node::Repeat(Box::new(self.node(part)), *min, *max),
        }
    }

    /// A sequence: neighbours without recursion are one lexeme together.
    fn runs(&mut self, parts: &[Expr]) -> Vec<Node> {
        let finite: Vec<bool> = parts.iter().map(|part| is_finite(part, &self.finite)).collect();
        let mut nodes = Vec::new();
        let mut at = 0;
        while at < parts.len() {
            let run = finite[at..].iter().take_while(|finite| **finite).count();
            let whole = Expr::Seq(parts[at..at + run].to_vec());
            if run > 1 && run < parts.len() && !self.split.contains(&whole) {
                nodes.push(self.lexeme(&whole));
            } else {
                nodes.extend(parts[at..at + run.max(1)].iter().map(|part| self.node(part)));
            }
            at += run.max(1);
        }
        nodes
    }

    fn lexeme(&mut self, expr: &Expr) -> Node {
        let known = self.lexemes.iter().position(|lexeme| lexeme == expr);
        Node::Lexeme(known.unwrap_or_else(|| {
            self.lexemes.push(expr.clone());
            self.lexemes.len() - 1
        }))
    }

    /// The lexemes that would keep texts out which the grammar has.
    fn wrong(&self) -> Vec<Expr> {
        let single = |lexeme: &Expr| matches!(lexeme, Expr::Chars(_));
        let large = || self.lexemes.iter().filter(|lexeme| !single(lexeme)).cloned();
        let places: Option<Vec<Places>> = self.lexemes.iter().map(|lexeme| Places::new(lexeme, self.rules)).collect();
        let Some(places) = places.filter(|places| comparable(places)) else { return large().collect() };
        let follow = self.follow(&places);
        let mut wrong = Vec::new();
        for (a, after) in follow.iter().enumerate() {
            let chars: Vec<&Chars> = (0..places.len()).filter(|b| after[*b]).flat_map(|b| places[b].begins()).collect();
            for b in (0..places.len()).filter(|&b| places[a].grows_into(&places[b], &chars)) {
                // The larger one is cut: a string stays whole, and `string ":"` does not. A single character never is.
                let larger = if places[b].len() >= places[a].len() { b } else { a };
                if !wrong.contains(&self.lexemes[larger]) {
                    wrong.push(self.lexemes[larger].clone());
                }
            }
        }
        wrong
    }

    /// Which lexemes may follow each.
    fn follow(&self, places: &[Places]) -> Vec<Vec<bool>> {
        let none = vec![false; places.len()];
        let mut sets = Sets {
            places,
            firsts: vec![(none.clone(), false); self.bodies.len()],
            behind: vec![none.clone(); self.bodies.len()],
            follow: vec![none; places.len()],
            changed: true,
        };
        while std::mem::take(&mut sets.changed) {
            for (number, body) in self.bodies.iter().enumerate() {
                let first = sets.first(body);
                sets.changed |= first != sets.firsts[number];
                sets.firsts[number] = first;
                let behind = sets.behind[number].clone();
                sets.visit(body, &behind);
            }
        }
        sets.follow
    }

    fn write(&self, root: usize) -> Result<String, GrammarError> {
        let mut out = format!("start: r{root}\n");
        for (number, body) in self.bodies.iter().enumerate().filter(|(number, _)| !self.finite[*number]) {
            out.push_str(&format!("r{number}: {}\n", self.text(body)));
        }
        for (number, lexeme) in self.lexemes.iter().enumerate() {
            out.push_str(&format!("L{number}: /{}/\n", regex(lexeme, self.rules)?));
        }
        Ok(out)
    }

    fn text(&self, node: &Node) -> String {
        let joined = |nodes: &[Node], between: &str| {
            let texts: Vec<String> = nodes.iter().map(|node| self.text(node)).collect();
            if texts.is_empty() { "\"\"".into() } else { format!("({})", texts.join(between)) }
        };
        match node {
            Node::Lexeme(number) => format!("L{number}"),
            Node::Body(number) => format!("r{number}"),
            Node::Seq(nodes) => joined(nodes, " "),
            Node::Alt(nodes) => joined(nodes, " | "),
            Node::Repeat(node, min, max) => format!("{}{}", self.text(node), bounds(*min, *max)),
        }
    }
}

/// What may begin a body, what may follow it, and what may follow a lexeme: sets of lexemes.
struct Sets<'a> {
    places: &'a [Places],
    /// With whether the body may be nothing.
    firsts: Vec<(Vec<bool>, bool)>,
    behind: Vec<Vec<bool>>,
    follow: Vec<Vec<bool>>,
    changed: bool,
}

impl Sets<'_> {
    fn first(&self, node: &Node) -> (Vec<bool>, bool) {
        let none = vec![false; self.places.len()];
        match node {
            Node::Lexeme(number) => {
                let mut one = none;
                one[*number] = true;
                (one, self.places[*number].may_be_empty())
            }
            Node::Body(number) => self.firsts[*number].clone(),
            Node::Seq(nodes) => nodes.iter().rev().fold((none, true), |(after, empty), node| {
                let (mut first, may) = self.first(node);
                if may {
                    unite(&mut first, &after);
                }
                (first, may && empty)
            }),
            Node::Alt(nodes) => nodes.iter().fold((none, false), |(mut all, empty), node| {
                let (first, may) = self.first(node);
                unite(&mut all, &first);
                (all, empty || may)
            }),
            Node::Repeat(node, min, _) => {
                let (first, may) = self.first(node);
                (first, may || *min == 0)
            }
        }
    }

    /// Notes what may follow the parts of a node that `behind` may follow.
    fn visit(&mut self, node: &Node, behind: &[bool]) {
        match node {
            Node::Lexeme(number) => self.changed |= unite(&mut self.follow[*number], behind),
            Node::Body(number) => self.changed |= unite(&mut self.behind[*number], behind),
            Node::Alt(nodes) => nodes.iter().for_each(|node| self.visit(node, behind)),
            Node::Seq(nodes) => {
                let mut behind = behind.to_vec();
                for node in nodes.iter().rev() {
                    self.visit(node, &behind);
                    let (mut first, may) = self.first(node);
                    if may {
                        unite(&mut first, &behind);
                    }
                    behind = first;
                }
            }
            Node::Repeat(node, ..) => {
                let mut behind = behind.to_vec();
                unite(&mut behind, &self.first(node).0);
                self.visit(node, &behind);
            }
        }
    }
}

/// Adds a set to another; whether that is larger now.
fn unite(to: &mut [bool], from: &[bool]) -> bool {
    let mut larger = false;
    for (to, from) in to.iter_mut().zip(from) {
        larger |= *from && !*to;
        *to |= from;
    }
    larger
}
