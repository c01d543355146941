//! PTX text to [`Module`]: statements, declarations, scopes, labels. Instructions are decoded in `instruction`.

mod decode;
mod instruction;
mod names;
mod warp;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::ParseError;
use super::code::sass::Bank;
use super::code::{Instruction, Kernel, Module, Op};
use decode::Decoder;

type Result<T> = std::result::Result<T, ParseError>;

fn error<T>(line: usize, what: impl Into<String>) -> Result<T> {
    Err(ParseError { line, what: what.into() })
}

impl Module {
    /// Reads and decodes all kernels.
    ///
    /// # Errors
    /// Text without `.target sm_NN`, a kernel that stands there twice, text that ends inside of a declaration, or an
    /// instruction that this machine does not know (with its line, even where no launch would reach it).
    pub fn parse(text: &str) -> Result<Self> {
        let mut statements = Statements { rest: text, line: 1 };
        let mut module = Self { sm: 0, kernels: Vec::new() };
        // Shared arrays outside of kernels: (name, alignment, bytes); 0 bytes for the dynamic one.
        let mut shared: Vec<(String, usize, usize)> = Vec::new();
        while let Some((line, head)) = statements.declaration()? {
            let words: Vec<&str> = head.split_whitespace().collect();
            match words.as_slice() {
                [".version" | ".address_size", ..] => (),
                [".target", sm, ..] => {
                    let number = sm.trim_end_matches(',').strip_prefix("sm_").map(|n| n.trim_end_matches(['a', 'f']));
                    match number.and_then(|n| n.parse().ok()) {
                        Some(number) => module.sm = number,
                        None => return error(line, format!("`{head}`: expected .target sm_NN")),
                    }
                }
                // Constants of the source that no code takes the address of; `decode` refuses the name where some does.
                [".global", ..] | [".visible", ".global", ..] => (),
                [".extern", ".shared", ..] | [".shared", ..] => shared.push(variable(line, &head)?),
                [".visible", ".entry", ..] | [".entry", ..] => {
                    let kernel = kernel(module.sm, line, &head, &mut statements, &shared)?;
                    if module.kernel(&kernel.name).is_some() {
                        return error(line, format!("kernel {} stands here a second time", kernel.name));
                    }
                    module.kernels.push(kernel);
                }
                _ => return error(line, format!("`{head}`: not a declaration that this machine knows")),
            }
        }
        if module.sm == 0 {
            return error(0, "no .target: not PTX");
        }
        Ok(module)
    }
}

/// Cuts text into statements.
struct Statements<'a> {
    rest: &'a str,
    line: usize,
}

/// What stands between the braces of a kernel.
enum Statement<'a> {
    Open,
    Close,
    Label(&'a str),
    /// Up to its semicolon.
    Words(&'a str),
}

impl<'a> Statements<'a> {
    fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.advance(space);
            let comment = if self.rest.starts_with("//") {
                self.rest.find('\n')
            } else if self.rest.starts_with("/*") {
                self.rest.find("*/").map(|end| end + 2)
            } else {
                return;
            };
            self.advance(comment.unwrap_or(self.rest.len()));
        }
    }

    /// A declaration of the module without its semicolon; that of a kernel up to its opening brace, which is taken too.
    fn declaration(&mut self) -> Result<Option<(usize, String)>> {
        self.skip_space();
        if self.rest.is_empty() || self.rest.starts_with('\0') {
            return Ok(None);
        }
        let line = self.line;
        let one_line = [".version", ".target", ".address_size"].iter().any(|word| self.rest.starts_with(word));
        let end = if one_line {
            self.rest.find('\n')
        } else {
            // An initialiser has braces of its own.
            self.rest.find([';', '{', '=']).and_then(|at| match self.rest.as_bytes()[at] {
                b'=' => self.rest.find(';'),
                _ => Some(at),
            })
        };
        let Some(end) = end else { return error(line, "the text ends inside of a declaration") };
        let head = self.advance(end).lines().map(|l| l.split("//").next().unwrap_or_default()).collect::<Vec<_>>();
        self.advance(1);
        Ok(Some((line, head.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))))
    }

    /// The next statement of a kernel, and its line.
    fn next(&mut self) -> Result<(usize, Statement<'a>)> {
        self.skip_space();
        let line = self.line;
        match self.rest.as_bytes().first() {
            None => return error(line, "the text ends inside of a kernel"),
            Some(b'{') => {
                self.advance(1);
                return Ok((line, Statement::Open));
            }
            Some(b'}') => {
                self.advance(1);
                return Ok((line, Statement::Close));
            }
            _ => (),
        }
        let name = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c))).unwrap_or(0);
        if name > 0 && self.rest[name..].starts_with(':') {
            let label = self.advance(name);
            self.advance(1);
            return Ok((line, Statement::Label(label)));
        }
        let Some(end) = self.rest.find(';') else { return error(line, "no semicolon behind this") };
        let words = self.advance(end).trim();
        self.advance(1);
        Ok((line, Statement::Words(words)))
    }
}

/// `.shared .align 16 .b8 name[512]` as (name, alignment, bytes); no number between the brackets: 0.
fn variable(line: usize, text: &str) -> Result<(String, usize, usize)> {
    let unknown = || ParseError { line, what: format!("`{text}`: not a variable that this machine knows") };
    let mut align = 1;
    let mut words = text.split_whitespace().peekable();
    let mut element = 0;
    while let Some(word) = words.next_if(|word| word.starts_with('.')) {
        match word {
            ".align" => align = words.next().and_then(|n| n.parse().ok()).ok_or_else(unknown)?,
            ".extern" | ".shared" | ".param" | ".visible" => (),
            _ => element = word[2..].parse::<usize>().map_err(|_| unknown())? / 8,
        }
    }
    let name = words.next().ok_or_else(unknown)?;
    let (name, count) = match name.split_once('[') {
        None => (name, 1),
        Some((name, "]")) => (name, 0),
        Some((name, count)) => (name, count.trim_end_matches(']').parse().map_err(|_| unknown())?),
    };
    if element == 0 || !(1..=4096).contains(&align) || words.next().is_some() || count > 1 << 30 {
        return Err(unknown());
    }
    Ok((name.to_owned(), align.max(element), count * element))
}

/// Lays variables out one behind the other: offset of each, bytes of all.
fn lay_out(variables: &[(String, usize, usize)]) -> (Vec<(String, usize, usize)>, usize) {
    let mut end = 0;
    let place = |(name, align, bytes): &(String, usize, usize)| {
        let begin = usize::next_multiple_of(end, *align);
        end = begin + bytes;
        (name.clone(), begin, *bytes)
    };
    (variables.iter().map(place).collect(), end)
}

fn kernel(
    sm: u32,
    line: usize,
    head: &str,
    statements: &mut Statements<'_>,
    outside: &[(String, usize, usize)],
) -> Result<Kernel> {
    let Some((name, params, how)) = (|| {
        let (name, rest) = head.split_once(".entry")?.1.split_once('(')?;
        let (params, how) = rest.split_once(')')?;
        Some((name.trim(), params, how))
    })() else {
        return error(line, format!("`{head}`: not a kernel's head"));
    };
    let params = params.split(',').map(str::trim).filter(|p| !p.is_empty());
    let params = params.map(|p| variable(line, p)).collect::<Result<Vec<_>>>()?;
    let (params, param_bytes) = lay_out(&params);
    let mut max_threads = 1024;
    let mut directives = how.split_whitespace().filter(|w| !w.starts_with(|c: char| c.is_ascii_digit()));
    if let Some(other) = directives.find(|d| ![".maxntid", ".minnctapersm", ".reqntid"].contains(d)) {
        return error(line, format!("kernel {name}: `{other}` is not a directive that this machine knows"));
    }
    if let Some((_, numbers)) = how.split_once(".maxntid").or_else(|| how.split_once(".reqntid")) {
        let numbers = numbers.split('.').next().unwrap_or_default();
        let numbers: std::result::Result<Vec<u32>, _> = numbers.split(',').map(|n| n.trim().parse()).collect();
        match numbers.ok().map(|n| n.iter().product()) {
            Some(product) => max_threads = product,
            None => return error(line, format!("kernel {name}: `{how}` has no numbers of threads")),
        }
    }
    let mut arrays = outside.to_vec();
    let mut decoder = Decoder::new(params);
    let (code, texts) = body(statements, &mut decoder, &mut arrays)?;
    // The dynamic array begins where all others end.
    let (dynamic, mut own): (Vec<_>, Vec<_>) = arrays.into_iter().partition(|(_, _, bytes)| *bytes == 0);
    let align = dynamic.iter().map(|(_, align, _)| *align).max().unwrap_or(1);
    own.push((String::new(), align, 0));
    let (mut shared, shared_bytes) = lay_out(&own);
    shared.pop();
    shared.extend(dynamic.into_iter().map(|(name, ..)| (name, shared_bytes, 0)));
    let (mut instructions, mut lines, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    let undefined = undefined(&texts);
    for (line, text, scope) in texts {
        let read = match high_half(&text).filter(|high| undefined.contains(*high)) {
            Some(high) => Cow::Owned(text.replace(high, UNDEFINED)),
            None => Cow::Borrowed(&*text),
        };
        let (instruction, class) = instruction::decode(&mut decoder, line, &read, scope, &shared)?;
        instructions.push(instruction);
        classes.push(class);
        lines.push((u32::try_from(line).unwrap_or(u32::MAX), text.into()));
    }
    resolve(&mut instructions, &decoder, &code, &lines)?;
    let ends = instructions.last().is_some_and(|i| matches!(i.op, Op::Return | Op::Branch(_)) && i.guard.is_none());
    if !ends {
        return error(statements.line, format!("kernel {name} ends without ret"));
    }
    let (files, lists) = decoder.finish();
    let name = name.to_owned();
    let code = instructions;
    Ok(Kernel {
        name,
        sm,
        max_threads,
        param_bytes,
        shared_bytes,
        registers: 0,
        shared,
        code,
        lines,
        classes,
        lists,
        files,
        bank: Bank::default(),
        table: Vec::new(),
        controls: Vec::new(),
        uses: Vec::new(),
    })
}

type Labels = HashMap<String, u32>;
/// Line, text, scope.
type Texts = Vec<(usize, String, usize)>;

/// The statements of a kernel up to its closing brace: labels, and the texts of the instructions. Registers are
/// declared on the way, shared arrays are added to the list.
fn body(
    statements: &mut Statements<'_>,
    decoder: &mut Decoder,
    arrays: &mut Vec<(String, usize, usize)>,
) -> Result<(Labels, Texts)> {
    let (mut labels, mut texts) = (HashMap::new(), Vec::new());
    loop {
        let (line, statement) = statements.next()?;
        match statement {
            Statement::Open => decoder.names.open(),
            Statement::Close if decoder.names.close() => return Ok((labels, texts)),
            Statement::Close => (),
            Statement::Label(label) => {
                if labels.insert(label.to_owned(), texts.len() as u32).is_some() {
                    return error(line, format!("label {label} stands here a second time"));
                }
            }
            Statement::Words(words) if words.starts_with('.') => match words.split_whitespace().next() {
                Some(".reg") => decoder.names.declare(line, words)?,
                Some(".shared") => arrays.push(variable(line, words)?),
                Some(".pragma") => (),
                _ => return error(line, format!("`{words}`: not a declaration that this machine knows")),
            },
            Statement::Words(words) => {
                let text = words.split_whitespace().collect::<Vec<_>>().join(" ");
                texts.push((line, text, decoder.names.scope()));
            }
        }
    }
}

/// Half of a register that the compiler left open: any use of it shows.
const UNDEFINED: &str = "0x5bad5bad";

/// The register that becomes the upper half of `mov.b64 %rd1, {%r1, %r2}`.
fn high_half(text: &str) -> Option<&str> {
    let high = text.strip_prefix("mov.b64 ")?.split_once('{')?.1.split_once(',')?.1.trim().strip_suffix('}')?;
    high.starts_with('%').then_some(high)
}

/// Upper halves that nothing writes, registers that stand nowhere else, and nothing reads: so the compiler widens a number that it is
/// going to mask.
fn undefined(texts: &Texts) -> HashSet<String> {
    let whole = |text: &'_ str| text.strip_prefix("mov.b64 ").and_then(|t| t.split(',').next()).map(str::to_owned);
    let halves = texts.iter().filter_map(|t| Some((high_half(&t.1)?, whole(&t.1)?)));
    let halves: HashMap<&str, String> = halves.collect();
    // How often each register stands somewhere that matters.
    let mut places: HashMap<&str, usize> = HashMap::new();
    if !halves.is_empty() {
        let part = |c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c));
        for (_, text, _) in texts {
            let masks =
                text.starts_with("cvt.s64.s32 ") || text.starts_with("and.b64 ") && text.ends_with(", 4294967295");
            for word in text.split(part).filter(|word| word.starts_with('%')) {
                *places.entry(word).or_default() += usize::from(!masks);
            }
        }
    }
    // Each stands in the widening itself.
    let once = |register: &str| places.get(register) == Some(&1);
    halves.iter().filter(|(high, whole)| once(high) && once(whole)).map(|(high, _)| (*high).to_owned()).collect()
}

/// Labels to indices.
fn resolve(
    instructions: &mut [Instruction],
    decoder: &Decoder,
    labels: &Labels,
    lines: &[(u32, Box<str>)],
) -> Result<()> {
    let end = instructions.len() as u32;
    for (instruction, (line, text)) in instructions.iter_mut().zip(lines) {
        if let Op::Branch(target) = &mut instruction.op {
            let label = &decoder.targets[*target as usize];
            match labels.get(label) {
                Some(at) if *at < end => *target = *at,
                _ => return error(*line as usize, format!("`{text}`: no instruction behind label {label}")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_half_that_nothing_writes_is_a_number_that_shows() {
        let code = [
            "mov.u32 %r1, %tid.x;",
            "mov.b64 %rd1, {%r1, %r2};",
            "cvt.s64.s32 %rd2, %rd1;",
            "mov.b64 %rd3, {%r1, %r1};",
            "mov.b64 %rd4, {%r1, %r3};",
            "add.s64 %rd4, %rd4, %rd3;",
        ];
        let texts: super::Texts = code.iter().map(|t| (0, t.trim_end_matches(';').to_owned(), 0)).collect();
        assert_eq!(super::undefined(&texts), ["%r2".to_owned()].into());
    }
}
