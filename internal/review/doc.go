// Package review examines the source of a tool before it is kept, and never runs
// it. It looks for dangerous constructs, for what hides them, and for secrets
// that do not belong in source. What it finds goes to a person: a [haft.Finding]
// has a rule, a severity, a line and what to do instead, and never a word of the
// source, because what was found may be a secret.
//
// A [Reviewer] reads each language by its own means:
//
//   - Python by the syntax tree of CPython, in a script of this package
//     that runs in a confined interpreter; and by bandit, where it is installed
//     ([BanditScript]).
//   - Bash by the syntax tree of mvdan.cc/sh.
//   - JavaScript and TypeScript by the syntax tree of what esbuild prints for
//     them, which is what runs. Names that only become what they are at run time
//     are followed where constants make them.
//   - All of them by their text: secrets, characters that cannot be seen,
//     encoded blocks, lines that nobody reads.
//
// A [Rule] has a severity and the reason for it. Package policy decides what happens
// then: warn, ask or refuse.
//
// # What is promised
//
//   - Nothing of the source is executed, imported or fetched.
//   - Equal sources give equal reports, ordered by line, rule and scanner.
//   - What cannot be read is a finding itself (source-unreadable), never silence.
//   - At most [MaxFindings] findings come back, the most severe ones; the last
//     then says how many more there are.
//   - Sizes are bounded. Time is bounded by the context and by the caller that
//     runs the scripts.
//
// # What is not
//
// A review is not a boundary. A program can be written that says nothing of what
// it does until it runs; the sandbox is what holds it. A review tells people what
// they are about to accept and makes hiding conspicuous.
package review
