//! Common English words and pieces of code, and letters by their frequency.

/// Lowercase letters, the frequent ones first.
pub const LETTERS: &[u8; 26] = b"etaoinshrdlcumwfgypbvkjxqz";

/// Words of ASCII characters, the frequent ones first.
pub const COMMON: &[&str] = &[
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which",
    "one you were all her she there would their we him been has when who will no more if out so up said what its about",
    "than into them can only other time new some could these two may first then do any like my now over such our man me",
    "even most made after also did many off before must well back through years much where your way down should because",
    "long each just state those people too mr how little good world make very year still see own work men day get here",
    "old life both between being under three never know same last another while us might great go come since against",
    "right came take used himself few house use place during high without again home around small however found thought",
    "went say part once general upon every left war does got water number think always set system order give often",
    "ing ed er es ly tion ation ment ness able ful less ist ism ive ous ity al ic ical est ies ally ers ings ions",
    "hello answer question write story sum list code function return let fn pub use mod impl struct enum match self",
    "def class import print true false none null void int float string const static public private if else while",
    "0 1 2 3 4 5 6 7 8 9 . , : ; ! ? ( ) [ ] { } < > = + - * / == != <= >= -> => :: // /* */ += -= && || '' \"\" ... ---",
];
