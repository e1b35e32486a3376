package review

import (
	"slices"
	"sync"

	"haft"
)

// Scanner is the name of this package's own rules in findings. The scanner of bandit's
// findings is bandit.
const Scanner = "haft"

// A Rule is one thing that is looked for.
//
// # How severe?
//
// By what a reviewer has to do, taking for granted that the tool runs in a
// sandbox. Low: know about it; honest tools have it. Medium: look at the line;
// there is a better way, and honest tools may not know it. High: somebody has to
// agree, because the source can do things that it does not say (code made at run
// time, native code, hidden names) or gives something away (a secret). Critical:
// honest tools have no use for it, such as a reverse shell.
type Rule struct {
	ID       string
	Severity haft.Severity
	// What is wrong with it, and Instead what to write.
	What, Instead string
}

// message is what a finding of the rule says.
func (r Rule) message() string { return r.What + "; " + r.Instead }

// rules are the rules of this package by their names.
var rules = sync.OnceValue(func() map[string]Rule {
	all := map[string]Rule{}
	for _, r := range slices.Concat(textRules(), secretRules(), stringRules(), pythonRules(), jsRules(), bashRules()) {
		all[r.ID] = r
	}
	return all
})

// The severities, short for the tables.
const (
	low      = haft.SeverityLow
	medium   = haft.SeverityMedium
	high     = haft.SeverityHigh
	critical = haft.SeverityCritical
)

// The rules that code here names more than once.
const (
	ruleUnreadable = "source-unreadable"
	ruleMore       = "source-more"
	ruleComplex    = "source-complex"
	ruleEncoded    = "source-encoded"
	ruleMixed      = "source-mixed-script"
	ruleDisguised  = "source-disguised-name"
	ruleRunsFile   = "source-runs-file"
)

// textRules are about the text of a source in any language.
func textRules() []Rule {
	return []Rule{
		{ruleUnreadable, high, "this source cannot be read as its language, so it was not reviewed", "fix the syntax"},
		{ruleComplex, high, "this is nested or repeated too much to be followed", "write it plainly"},
		{ruleRunsFile, high, "this can run a file of the tool that was not reviewed as this kind of code",
			"give the file the ending of its language and import it"},
		{ruleMore, low, "there are more findings", "fix those that are listed first"},
		{ruleEncoded, medium, "a long encoded text hides what it is",
			"keep data in a file beside the tool, or say in plain text what it does"},
		{ruleMixed, high, "a name mixes letters of scripts that look alike",
			"write the name with letters of one script"},
		{ruleDisguised, high, "a name is written with characters that turn into other ones",
			"write the name with plain letters"},
		{"source-bidi", high, "a control character changes the order in which this text is shown, so it is not what " +
			"it looks like", "remove the character"},
		{"source-invisible", medium, "there is a character that nobody can see", "remove the character"},
		{"source-control", medium, "there is a control character, which a terminal may obey",
			"write it as an escape sequence"},
		{"source-long-line", low, "the line has more than 2,000 characters, which nobody reads", "break the line"},
	}
}

// stringRules are about what is written in strings and words, in any language.
func stringRules() []Rule {
	return []Rule{
		{"string-credentials", high, "this names a file where people keep their credentials",
			"let the tool be given what it needs as a secret"},
		{"string-persistence", high, "this names a file that decides who may log in or what runs later",
			"leave the configuration of the machine alone"},
		{"string-process", high, "this names the memory, the environment or the descriptors of a process",
			"read the one variable that is needed"},
		{"string-device", high, "this names a raw device of the machine", "work with files"},
		{"string-metadata", high, "this is the address where a cloud gives out credentials",
			"let the tool be given what it needs as a secret"},
		{"string-miner", critical, "this belongs to a miner of crypto-currency", "remove it"},
		{"string-introspection", high, "this text names the way from an object to everything that is loaded",
			"use the objects that the function is given"},
		{"string-shell", critical, "this text is a shell that connects outwards", "remove it"},
	}
}
