package agenttool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"haft"
	"haft/executor/builtin"
)

type appendIn struct {
	Label   string `json:"label" jsonschema:"Section of the memory to be edited."`
	Content string `json:"content" jsonschema:"Content to write to the memory. All unicode is supported."`
}

type replaceContentIn struct {
	Label string `json:"label" jsonschema:"Section of the memory to be edited."`
	Old   string `json:"old_content" jsonschema:"String to replace. Must be an exact match."`
	New   string `json:"new_content" jsonschema:"Content to write to the memory. An empty string deletes the old content."`
}

type insertIn struct {
	Label string `json:"label" jsonschema:"Section of the memory to be edited, identified by its label."`
	New   string `json:"new_str" jsonschema:"The text to insert. Do not include line number prefixes."`
	Line  *int   `json:"insert_line,omitempty" jsonschema:"Line after which to insert; 0 is the beginning. Defaults to -1, the end."`
}

type replaceIn struct {
	Label string `json:"label" jsonschema:"Section of the memory to be edited, identified by its label."`
	Old   string `json:"old_str" jsonschema:"The text to replace (must match exactly, including whitespace)."`
	New   string `json:"new_str" jsonschema:"The text to insert in its place. Do not include line number prefixes."`
}

type rethinkIn struct {
	Label string `json:"label" jsonschema:"The memory block to be rewritten, identified by its label."`
	New   string `json:"new_memory" jsonschema:"The new memory contents, with what is to stay of the old ones."`
}

// addBlockTools adds the tools that edit blocks.
func addBlockTools(s *builtin.Set, blocks BlockEditor) error {
	return errors.Join(
		addEdit(s, blocks, "core_memory_append", "Append to the contents of core memory.", false,
			func(in appendIn) (string, edit, error) { return in.Label, appendTo(in.Content), tooLong(in.Content) }),
		addEdit(s, blocks, "core_memory_replace", "Replace the contents of core memory. To delete memories, use "+
			"an empty string for new_content.", true,
			func(in replaceContentIn) (string, edit, error) {
				return in.Label, replaceAll(in.Label, in.Old, in.New), tooLong(in.Old, in.New)
			}),
		addEdit(s, blocks, "memory_insert", "Insert text at a specific location in a memory block.", false,
			func(in insertIn) (string, edit, error) {
				text, err := shown("new_str", in.New)
				return in.Label, insertAt(text, in.Line), err
			}),
		addEdit(s, blocks, "memory_replace", "Replace a specific string in a memory block with a new string. Used for "+
			"making precise edits.", true,
			func(in replaceIn) (string, edit, error) {
				from, err := shown("old_str", in.Old)
				to, wrong := shown("new_str", in.New)
				return in.Label, replaceOnce(in.Label, from, to), errors.Join(err, wrong)
			}),
		addEdit(s, blocks, "memory_rethink", "Completely rewrite the contents of a memory block: to condense, sort or "+
			"correct much of it. Use the other memory tools for small edits.", true,
			func(in rethinkIn) (string, edit, error) {
				_, err := shown("new_memory", in.New)
				return in.Label, func(haft.Block) (string, error) { return in.New, nil }, err
			}),
		builtin.Add(s, builtin.Def{Name: "memory_finish_edits", Version: "1", Category: category,
			Description: "Call this once everything that is to be remembered is in the memory blocks.",
			Annotations: harmless(true)},
			func(context.Context, builtin.Call, struct{}) (string, error) { return "The edits are finished.", nil }),
	)
}

// An edit makes the next value of a block. It runs while nobody else can write, so that all work on the arguments alone
// is done before.
type edit func(b haft.Block) (string, error)

// addEdit adds a tool that edits one block. Of returns the label of the block and the edit, or what is wrong with the
// arguments. A tool that overwrites destroys what was there.
func addEdit[In any](s *builtin.Set, blocks BlockEditor, name, description string, overwrites bool,
	of func(In) (string, edit, error)) error {
	d := builtin.Def{Name: name, Description: description, Version: "1", Category: category,
		Annotations: harmless(false)}
	d.Annotations.Destructive = &overwrites
	return builtin.Add(s, d, func(ctx context.Context, c builtin.Call, in In) (string, error) {
		p, err := agentOf(c)
		if err != nil {
			return "", err
		}
		label, change, err := of(in)
		if err != nil {
			return "", err
		}
		err = blocks.EditBlock(ctx, p, label, func(b haft.Block) (string, error) {
			if b.ReadOnly {
				return "", invalid("This block is read-only and cannot be edited.")
			}
			next, err := change(b)
			if err != nil {
				return "", err
			}
			if n := utf8.RuneCountInString(next); n > b.Limit {
				return "", invalid(fmt.Sprintf("Edit failed: Exceeds %d character limit (requested %d)", b.Limit, n))
			}
			return next, nil
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("The core memory block with label `%s` has been edited.", label), nil
	})
}

// tooLong refuses texts that fit into no block.
func tooLong(texts ...string) error {
	for _, text := range texts {
		if len(text) > utf8.UTFMax*haft.MaxBlockLimit || utf8.RuneCountInString(text) > haft.MaxBlockLimit {
			return invalid(fmt.Sprintf("Edit failed: Exceeds %d character limit", haft.MaxBlockLimit))
		}
	}
	return nil
}

// shown makes an argument what a model is shown of it, and refuses line numbers in it.
func shown(name, text string) (string, error) {
	if err := tooLong(text); err != nil {
		return "", err
	}
	return tabs(text), refuseNumbers(name, text)
}

// harmless says of a tool that it changes nothing outside of Haft.
func harmless(reads bool) haft.Annotations {
	no := false
	return haft.Annotations{ReadOnly: &reads, Destructive: &no, OpenWorld: &no}
}

func invalid(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }

func appendTo(content string) edit {
	return func(b haft.Block) (string, error) { return b.Value + "\n" + content, nil }
}

// numbered finds the numbers that lines have where a model is shown them; they are no part of the block.
var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\d+→ `) })

// refuseNumbers refuses a text that was copied together with what is shown around it.
func refuseNumbers(name, text string) error {
	if numbered().MatchString(text) {
		return invalid(name + " contains a line number prefix, which is not allowed. Do not include line numbers " +
			"when calling memory tools (line numbers are for display purposes only).")
	}
	if strings.Contains(text, "# NOTE: Line numbers shown below") {
		return invalid(name + " contains a line number warning, which is not allowed. Do not include line number " +
			"information when calling memory tools (line numbers are for display purposes only).")
	}
	return nil
}

// replaceAll replaces a text wherever it is.
func replaceAll(label, from, to string) edit {
	return func(b haft.Block) (string, error) {
		if from == "" {
			return "", errNothing()
		}
		n := strings.Count(b.Value, from)
		if n == 0 {
			return "", invalid(fmt.Sprintf("Old content '%s' not found in memory block '%s'", short(from), label))
		}
		if n*len(to) > utf8.UTFMax*(b.Limit+len(b.Value)) { // before it is made
			return "", invalid(fmt.Sprintf("Edit failed: Exceeds %d character limit", b.Limit))
		}
		return strings.ReplaceAll(b.Value, from, to), nil
	}
}

func errNothing() error {
	return invalid("there is no text to be replaced: to add to the block use the tool that inserts")
}

// replaceOnce replaces a text that is there once.
func replaceOnce(label, from, to string) edit {
	return func(b haft.Block) (string, error) {
		if from == "" {
			return "", errNothing()
		}
		value := tabs(b.Value)
		switch strings.Count(value, from) {
		case 1:
			return strings.Replace(value, from, to, 1), nil
		case 0:
			return "", invalid(fmt.Sprintf("No replacement was performed, old_string `%s` did not appear verbatim in "+
				"memory block with label `%s`.", short(from), label))
		}
		var lines []string
		for i, line := range strings.Split(value, "\n") {
			if strings.Contains(line, from) {
				lines = append(lines, fmt.Sprint(i+1))
			}
		}
		return "", invalid(fmt.Sprintf("No replacement was performed. Multiple occurrences of old_string `%s` in "+
			"lines [%s]. Please ensure it is unique.", short(from), strings.Join(lines[:min(len(lines), 20)], ", ")))
	}
}

func insertAt(text string, line *int) edit {
	return func(b haft.Block) (string, error) {
		lines := strings.Split(tabs(b.Value), "\n")
		at := -1
		if line != nil {
			at = *line
		}
		if at == -1 {
			at = len(lines)
		}
		if at < 0 || at > len(lines) {
			return "", invalid(fmt.Sprintf("Invalid `insert_line` parameter: %d. It should be within the range of "+
				"lines of the memory block: [0, %d], or -1 to append to the end of the memory block.", at, len(lines)))
		}
		return strings.Join(slices.Insert(lines, at, text), "\n"), nil
	}
}

// tabs makes tabs the spaces that they are shown as, up to every eighth column.
func tabs(text string) string {
	if !strings.Contains(text, "\t") {
		return text
	}
	var b strings.Builder
	column := 0
	for _, r := range text {
		switch r {
		case '\t':
			n := 8 - column%8
			b.WriteString("        "[:n])
			column += n
		case '\n':
			b.WriteRune(r)
			column = 0
		default:
			b.WriteRune(r)
			column++
		}
	}
	return b.String()
}

// short is a text for an error.
func short(text string) string {
	const most = 200
	if r := []rune(text[:min(len(text), utf8.UTFMax*most+1)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return strings.ToValidUTF8(text, "")
}
