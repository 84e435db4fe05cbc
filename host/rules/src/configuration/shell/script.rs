//! Shell tokens as a tree: what is done in order, on a condition, again, or when called.
//!
//! Never fails: a keyword in the wrong place is a word like others, what is not closed ends with
//! the text. Left out: here-documents (their lines are read as commands, since many hold one),
//! arithmetic, `select`.

use super::Word;
use super::lexer::{Operator, Token};

/// Nesting that is followed; what is deeper is read as if it were not nested.
const MAX_DEPTH: usize = 64;

pub type List<'t> = Vec<Item<'t>>;

/// A command and how it is reached from the one before it.
#[derive(Clone, Debug)]
pub struct Item<'t> {
    pub link: Link,
    pub node: Node<'t>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Always,
    /// `&&`
    IfDone,
    /// `||`
    IfFailed,
    /// `|`: both sides run in processes of their own.
    Piped,
}

#[derive(Clone, Debug)]
pub enum Node<'t> {
    Simple(Simple<'t>),
    /// Conditions with what they guard, in order; the last branch is `else` where there is one.
    If {
        branches: Vec<(List<'t>, List<'t>)>,
        otherwise: Option<List<'t>>,
    },
    Loop {
        variable: Option<(String, Vec<Word<'t>>)>,
        head: List<'t>,
        body: List<'t>,
    },
    /// `has_default`: one of the patterns is `*`.
    Case {
        arms: Vec<List<'t>>,
        has_default: bool,
    },
    Group(List<'t>),
    Subshell(List<'t>),
    Function {
        name: String,
        body: List<'t>,
    },
}

/// Words of one command; arrays that it assigns stand apart.
#[derive(Clone, Debug, Default)]
pub struct Simple<'t> {
    pub words: Vec<Word<'t>>,
    pub arrays: Vec<(Word<'t>, Vec<Word<'t>>)>,
}

pub fn parse<'t>(tokens: &[Token<'t>]) -> List<'t> {
    Parser::new(tokens).whole()
}

/// The same of a text that a shell takes; `None` where it would not.
pub fn parse_exact<'t>(tokens: &[Token<'t>]) -> Option<List<'t>> {
    let mut parser = Parser::new(tokens);
    let list = parser.whole();
    (!parser.is_broken).then_some(list)
}

struct Parser<'a, 't> {
    tokens: &'a [Token<'t>],
    at: usize,
    depth: usize,
    /// A shell would refuse it.
    is_broken: bool,
}

impl<'a, 't> Parser<'a, 't> {
    fn new(tokens: &'a [Token<'t>]) -> Self {
        Self { tokens, at: 0, depth: 0, is_broken: false }
    }

    fn whole(&mut self) -> List<'t> {
        let mut list = Vec::new();
        while self.at < self.tokens.len() {
            list.extend(self.list(&[]));
            // A closing word or parenthesis that closes nothing.
            self.is_broken |= self.at < self.tokens.len();
            self.at += 1;
        }
        list
    }

    /// A keyword that has to stand here.
    fn expects(&mut self, keyword: &str) {
        self.is_broken |= !self.takes(keyword);
    }

    /// What a keyword guards, which may not be empty.
    fn guarded(&mut self, until: &[&str]) -> List<'t> {
        let list = self.list(until);
        self.is_broken |= list.is_empty();
        list
    }

    fn operator(&self) -> Option<Operator> {
        match self.tokens.get(self.at)? {
            Token::Operator(operator) => Some(*operator),
            _ => None,
        }
    }

    /// An unquoted word that could be a keyword.
    fn keyword(&self) -> Option<&'a str> {
        match self.tokens.get(self.at)? {
            Token::Word(word) if is_bare(word) => Some(word.text.as_ref()),
            _ => None,
        }
    }

    fn takes(&mut self, keyword: &str) -> bool {
        let is_it = self.keyword() == Some(keyword);
        self.at += usize::from(is_it);
        is_it
    }

    fn skip_ends(&mut self) {
        while self.operator() == Some(Operator::End) {
            self.at += 1;
        }
    }

    /// Commands up to one of the closing words, which is left; or to what closes something further
    /// out.
    fn list(&mut self, until: &[&str]) -> List<'t> {
        let mut list = Vec::new();
        let mut link = Link::Always;
        loop {
            match self.operator() {
                Some(Operator::End) => {
                    self.at += 1;
                    // `a &&` goes on in the next line.
                    continue;
                }
                Some(operator @ (Operator::And | Operator::Or | Operator::Pipe)) => {
                    self.is_broken |= list.is_empty() || link != Link::Always;
                    link = match operator {
                        Operator::And => Link::IfDone,
                        Operator::Or => Link::IfFailed,
                        _ => Link::Piped,
                    };
                }
                Some(Operator::Close | Operator::CaseEnd) => {
                    self.is_broken |= link != Link::Always;
                    return list;
                }
                Some(Operator::Open) | None => {
                    if self.at >= self.tokens.len()
                        || self.keyword().is_some_and(|word| until.contains(&word))
                    {
                        self.is_broken |= link != Link::Always;
                        return list;
                    }
                    let before = self.at;
                    let node = self.node();
                    let is_misplaced = |word: &str| {
                        ["then", "elif", "else", "fi", "do", "done", "esac", "}", "in"]
                            .contains(&word)
                    };
                    self.is_broken |= match &node {
                        Node::Simple(simple) => simple
                            .words
                            .first()
                            .is_some_and(|word| is_bare(word) && is_misplaced(&word.text)),
                        // Behind what is closed only a sign or another closing word may follow.
                        _ => {
                            self.at < self.tokens.len()
                                && self.operator().is_none()
                                && !self.keyword().is_some_and(|word| until.contains(&word))
                        }
                    };
                    list.push(Item { link, node });
                    link = Link::Always;
                    if self.at == before {
                        self.at += 1;
                    }
                    continue;
                }
            }
            self.at += 1;
        }
    }

    fn node(&mut self) -> Node<'t> {
        if self.depth >= MAX_DEPTH {
            self.is_broken = true;
            return Node::Simple(self.simple());
        }
        self.depth += 1;
        let node = self.compound();
        self.depth -= 1;
        node
    }

    fn compound(&mut self) -> Node<'t> {
        if self.operator() == Some(Operator::Open) {
            self.at += 1;
            let list = self.guarded(&[]);
            let is_closed = self.operator() == Some(Operator::Close);
            self.is_broken |= !is_closed;
            self.at += usize::from(is_closed);
            return Node::Subshell(list);
        }
        match self.keyword() {
            Some("if") => self.conditional(),
            Some("while" | "until") => {
                self.at += 1;
                let head = self.guarded(&["do"]);
                Node::Loop { variable: None, head, body: self.loop_body() }
            }
            Some("for") => self.counted_loop(),
            Some("case") => self.case(),
            Some("{") => {
                self.at += 1;
                let list = self.guarded(&["}"]);
                self.expects("}");
                Node::Group(list)
            }
            Some("function") if self.tokens.len() > self.at + 1 => {
                self.at += 1;
                self.function().unwrap_or_else(|| Node::Simple(self.simple()))
            }
            Some(_) if self.opens_function() => {
                self.function().unwrap_or_else(|| Node::Simple(self.simple()))
            }
            _ => Node::Simple(self.simple()),
        }
    }

    fn conditional(&mut self) -> Node<'t> {
        let mut branches = Vec::new();
        let mut otherwise = None;
        self.at += 1;
        loop {
            let condition = self.guarded(&["then", "fi"]);
            self.expects("then");
            let body = self.guarded(&["elif", "else", "fi"]);
            branches.push((condition, body));
            if self.takes("elif") {
                continue;
            }
            if self.takes("else") {
                otherwise = Some(self.guarded(&["fi"]));
            }
            self.expects("fi");
            return Node::If { branches, otherwise };
        }
    }

    fn loop_body(&mut self) -> List<'t> {
        self.expects("do");
        let body = self.guarded(&["done"]);
        self.expects("done");
        body
    }

    fn counted_loop(&mut self) -> Node<'t> {
        self.at += 1;
        let name = self.keyword().unwrap_or_default().to_owned();
        self.at += 1;
        self.skip_ends();
        let mut words = Vec::new();
        if self.takes("in") {
            while let Some(Token::Word(word)) = self.tokens.get(self.at) {
                words.push(word.clone());
                self.at += 1;
            }
        }
        let head = self.list(&["do"]);
        Node::Loop { variable: Some((name, words)), head, body: self.loop_body() }
    }

    fn case(&mut self) -> Node<'t> {
        self.at += 1;
        while !matches!(self.keyword(), Some("in")) && self.operator().is_none() {
            if self.at >= self.tokens.len() {
                break;
            }
            self.at += 1;
        }
        self.expects("in");
        let mut arms = Vec::new();
        let mut has_default = false;
        loop {
            self.skip_ends();
            let is_cut = self.at >= self.tokens.len();
            self.is_broken |= is_cut;
            if is_cut || self.takes("esac") {
                return Node::Case { arms, has_default };
            }
            // Patterns up to the parenthesis that closes them.
            while self.at < self.tokens.len() && self.operator() != Some(Operator::Close) {
                has_default |= self.keyword() == Some("*");
                self.at += 1;
            }
            self.at += 1;
            arms.push(self.list(&["esac"]));
            if matches!(self.operator(), Some(Operator::CaseEnd | Operator::Close)) {
                self.at += 1;
            }
        }
    }

    /// `NAME ( )`
    fn opens_function(&self) -> bool {
        let is = |ahead: usize, wanted: Operator| matches!(self.tokens.get(self.at + ahead), Some(Token::Operator(found)) if *found == wanted);
        is(1, Operator::Open) && is(2, Operator::Close)
    }

    /// From its name on; `None` where no body follows.
    fn function(&mut self) -> Option<Node<'t>> {
        let name = self.keyword()?.to_owned();
        let has_parentheses = self.opens_function();
        let before = self.at;
        self.at += if has_parentheses { 3 } else { 1 };
        self.skip_ends();
        let is_body = self.keyword() == Some("{") || self.operator() == Some(Operator::Open);
        if !is_body {
            self.at = before;
            return None;
        }
        let body = match self.node() {
            Node::Group(list) | Node::Subshell(list) => list,
            other => vec![Item { link: Link::Always, node: other }],
        };
        Some(Node::Function { name, body })
    }

    fn simple(&mut self) -> Simple<'t> {
        let mut simple = Simple::default();
        while let Some(token) = self.tokens.get(self.at) {
            match token {
                Token::Word(word) => simple.words.push(word.clone()),
                Token::Array(name, elements) => {
                    simple.arrays.push((name.clone(), elements.clone()));
                }
                Token::Operator(_) => break,
            }
            self.at += 1;
        }
        simple
    }
}

/// Written without quotes and without anything to replace.
fn is_bare(word: &Word<'_>) -> bool {
    word.raw.len() == word.text.len() && word.expansions.is_empty()
}
