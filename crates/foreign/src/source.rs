//! A configuration of several files as one text that readers take: files that others include stand where they are
//! included, and the place of every byte is known.

/// One text of pieces of files.
#[derive(Debug, Default, Clone)]
pub struct SourceText {
    pub text: String,
    pieces: Vec<Piece>,
    files: Vec<SourceFile>,
}

#[derive(Debug, Clone)]
struct SourceFile {
    name: String,
    text: String,
    /// Where each of its lines begins.
    lines: Vec<usize>,
}

/// A part of a file, by where it stands in the text.
#[derive(Debug, Clone)]
struct Piece {
    /// Where it begins in the text; it ends where the next one begins.
    at: usize,
    file: usize,
    /// Where it begins in its file.
    offset: usize,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePlace {
    /// Which of the files, in the order in which they were read.
    pub file: usize,
    /// Counted from one.
    pub line: usize,
}

impl SourceText {
    /// One file.
    pub fn of(name: &str, text: &str) -> SourceText {
        let mut source = SourceText::default();
        let file = source.add_file(name, text);
        source.add(file, 0, text.len());
        source
    }

    /// Makes a file known, without any of its text.
    pub fn add_file(&mut self, name: &str, text: &str) -> usize {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        self.files.push(SourceFile { name: name.to_owned(), text: text.to_owned(), lines });
        self.files.len() - 1
    }

    /// Adds these bytes of a file behind all others.
    pub fn add(&mut self, file: usize, start: usize, end: usize) {
        self.pieces.push(Piece { at: self.text.len(), file, offset: start });
        let part = self.files[file].text[start..end].to_owned();
        self.text.push_str(&part);
    }

    /// Adds what stands in no file, as a line break between two.
    pub fn add_own(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn place(&self, at: usize) -> FilePlace {
        let index = self.pieces.partition_point(|piece| piece.at <= at).saturating_sub(1);
        let Some(piece) = self.pieces.get(index) else { return FilePlace { file: 0, line: 1 } };
        let offset = piece.offset + at.saturating_sub(piece.at);
        FilePlace { file: piece.file, line: self.files[piece.file].lines.partition_point(|start| *start <= offset) }
    }

    /// `line 18`, and of several files with the name in front.
    pub fn written_place(&self, place: &FilePlace) -> String {
        match self.files.get(place.file) {
            Some(file) if self.files.len() > 1 => format!("{}, line {}", file.name, place.line),
            Some(_) | None => format!("line {}", place.line),
        }
    }

    /// The names of the files, and the text of each.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|file| (file.name.as_str(), file.text.as_str()))
    }
}
