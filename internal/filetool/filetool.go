// Package filetool has the built-in tools with which agents work on files: they open, search, list and write those of
// the workspace of a call.
//
// Names, arguments and wording of open_files, grep_files and semantic_search_files are those of Letta, which models and
// prompts were made for. Everything in a workspace may be hostile: its files are opened beneath it, without following
// links, and all that is read, matched and shown is bounded.
package filetool

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"haft"
	"haft/executor/builtin"
	"haft/internal/workspace"
)

// The bounds of what tools read and show.
const (
	maxTotal   = 200 << 20 // bytes of all files that one call reads
	maxLine    = 16 << 10  // bytes of a line that are looked at
	maxShown   = 500       // characters of a line that are shown
	maxPattern = 1000      // characters of a regular expression, a glob or a query
	sniffed    = 8 << 10   // bytes in which a file that is no text has a NUL

	maxTime  = 20 * time.Second // of reading, however long the call may take: it is work of this process
	searches = 2                // that an organisation has at once, of each kind
)

// Add adds the tools, which work on the workspaces of a store.
func Add(s *builtin.Set, store *workspace.Store) error {
	return tools{store, maxTime}.add(s)
}

func (t tools) add(s *builtin.Set) error {
	return errors.Join(t.addOpen(s), t.addGrep(s), t.addSearch(s), t.addList(s), t.addWrite(s))
}

type tools struct {
	store *workspace.Store
	time  time.Duration // that one call may read
}

// def describes a tool that changes nothing outside of Haft.
func def(name, description string, reads bool) builtin.Def {
	no := false
	return builtin.Def{Name: name, Description: description, Version: "1", Category: "files",
		Annotations: haft.Annotations{ReadOnly: &reads, Destructive: &no, OpenWorld: &no},
		Settings:    haft.Settings{Parallel: reads}}
}

// errSlow ends what reads for too long.
var errSlow = &haft.Error{Code: haft.CodeInvalid,
	Message: "it takes too long to read the files: use a simpler pattern, name fewer files, or make them smaller"}

// read runs do with the files of the workspace of a call.
func (t tools) read(ctx context.Context, c builtin.Call,
	do func(ctx context.Context, tree *workspace.Tree) error) error {
	if c.Workspace == nil {
		return errNoWorkspace()
	}
	return t.store.ReadFor(ctx, c.Workspace, func(tree *workspace.Tree) error {
		ctx, cancel := context.WithTimeoutCause(ctx, t.time, errSlow)
		defer cancel()
		return do(ctx, tree)
	})
}

func errNoWorkspace() error {
	return invalid("there are no files, because the call has no workspace. Give the agent one: haft workspace add " +
		"WORKSPACE --shared, and haft agent set AGENT --workspace WORKSPACE. Or name one with the call: --workspace")
}

func invalid(format string, args ...any) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

// A text is an open file whose lines are read. Close it.
type text struct {
	io.ReadSeekCloser
	size int64
}

// errBinary is for files that are no text.
var errBinary = &haft.Error{Code: haft.CodeInvalid, Message: "the file is no text"}

// openText opens a file that is text and has at most so many bytes.
func openText(tree *workspace.Tree, at string, most int64) (*text, error) {
	e, f, err := tree.Open(at)
	if err != nil {
		return nil, err
	}
	head := make([]byte, min(e.Size, sniffed))
	if most = min(most, workspace.MaxToolFile); e.Size > most {
		err = invalid("the file is %d bytes large, %d is the most", e.Size, most)
	} else if _, err = io.ReadFull(f, head); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil && bytes.IndexByte(head, 0) >= 0 {
		err = errBinary
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &text{f, e.Size}, nil
}

// eachLine visits the lines of a text with their numbers, which begin with 1. A line that is longer than maxLine is
// cut. It is visit's until visit returns.
func (f *text) eachLine(ctx context.Context, visit func(n int, line []byte) error) error {
	r := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		line, err := r.ReadSlice('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read a file of the workspace: %w", err)
		}
		if e := visit(n, bytes.TrimRight(line, "\r\n")); e != nil {
			return e
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a long line
			_, err = r.ReadSlice('\n')
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// A scan reads the text files of a workspace, by path.
type scan struct {
	glob              *regexp.Regexp // that paths fit, or nil
	most              int64          // bytes of all files
	searched, skipped int            // files
	partial           bool           // the listing has not all files
}

// errEnough ends a scan that has found enough.
var errEnough = errors.New("enough is found")

// each visits the lines of all files. Files that are too large, no text, or cannot be opened are skipped.
func (x *scan) each(ctx context.Context, tree *workspace.Tree,
	visit func(path string, n int, line []byte) error) error {
	list, err := tree.List(ctx, "")
	if err != nil {
		return err
	}
	x.partial = list.More
	left := x.most
	for _, e := range list.Entries {
		if e.Kind != "file" || x.glob != nil && !x.glob.MatchString(e.Path) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f, err := openText(tree, e.Path, left)
		if err != nil {
			x.skipped++
			continue
		}
		x.searched++
		left -= f.size
		err = f.eachLine(ctx, func(n int, line []byte) error { return visit(e.Path, n, line) })
		_ = f.Close() // only read
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notes say what was not searched.
func (x *scan) notes() string {
	var out strings.Builder
	if x.skipped > 0 {
		fmt.Fprintf(&out, "Note: Skipped %d files that are too large, no text, or beyond %d bytes in all\n", x.skipped,
			x.most)
	}
	if x.partial {
		out.WriteString("Note: The workspace has more files than can be searched at once\n")
	}
	return out.String()
}

// A passage is some lines of a file that are shown.
type passage struct {
	path        string
	first, last int
	mark        int // the line that is marked, or 0
	text        strings.Builder
}

// maxPassage is how many bytes are shown of a passage.
const maxPassage = 4000

// fill reads the lines of passages. What cannot be opened any more is left empty.
func fill(ctx context.Context, tree *workspace.Tree, found []*passage) error {
	byPath := map[string][]*passage{}
	for _, p := range found {
		byPath[p.path] = append(byPath[p.path], p)
	}
	for path, list := range byPath {
		f, err := openText(tree, path, workspace.MaxToolFile)
		if err != nil {
			continue
		}
		end := slices.MaxFunc(list, func(p, q *passage) int { return cmp.Compare(p.last, q.last) }).last
		err = f.eachLine(ctx, func(n int, line []byte) error {
			for _, p := range list {
				if n >= p.first && n <= p.last && p.text.Len() < maxPassage {
					mark := " "
					if n == p.mark {
						mark = ">"
					}
					fmt.Fprintf(&p.text, "%s %d: %s\n", mark, n, shown(line))
				}
			}
			if n >= end {
				return errEnough
			}
			return nil
		})
		_ = f.Close() // only read
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// compileGlob returns what matches paths that a glob such as *.md or src/* fits, or nil for an empty one. A star
// matches slashes too.
func compileGlob(name, glob string) (*regexp.Regexp, error) {
	if glob == "" {
		return nil, nil
	}
	if utf8.RuneCountInString(glob) > maxPattern/4 {
		return nil, invalid("%s: expected at most %d characters", name, maxPattern/4)
	}
	expr := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(path.Clean(glob)))
	re, err := regexp.Compile("(?is)(?:^|/)" + expr + "$")
	if err != nil {
		return nil, invalid("%s: expected a pattern such as *.md", name)
	}
	return re, nil
}

// shown is a line as a model sees it.
func shown(line []byte) string {
	if len(line) > utf8.UTFMax*maxShown {
		line = line[:utf8.UTFMax*maxShown]
	}
	s := strings.ReplaceAll(strings.ToValidUTF8(string(line), "\uFFFD"), "\x00", "\uFFFD")
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "… [line cut]"
	}
	return s
}
