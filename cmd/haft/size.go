package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"haft/sandbox"
)

// size is a flag for a number of bytes, such as 512MiB.
type size int64

// units are what a size can be given in.
var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"K", 1 << 10},
	{"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}, {"", 1}}

// String returns the size in bytes.
func (s *size) String() string {
	if *s == 0 {
		return "512MiB"
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type is what the help calls the value.
func (s *size) Type() string { return "size" }

// Set reads a size.
func (s *size) Set(text string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.bytes {
			break
		}
		*s = size(n * u.bytes)
		return nil
	}
	return errors.New("a size is a number with B, KiB, MiB or GiB")
}

// maxFile is the largest file that is handed in from the command line.
const maxFile = 64 << 20

// maxFiles is how many files a tool can be handed.
const maxFiles = 256

// readFiles reads the files that are handed to a tool. Of a directory that is
// everything below it but what is hidden or compiled, under its name.
func readFiles(names []string) ([]sandbox.File, error) {
	var files []sandbox.File
	for _, name := range names {
		if isDir(name) {
			below, err := readFilesBelow(name)
			if err != nil {
				return nil, usage(fmt.Errorf("read the files for the tool: %w", err))
			}
			files = append(files, below...)
			continue
		}
		b, err := readBounded(name, maxFile)
		if err != nil {
			return nil, usage(fmt.Errorf("read a file for the tool: %w", err))
		}
		files = append(files, sandbox.File{Name: filepath.Base(name), Data: b})
	}
	if len(files) > maxFiles {
		return nil, usage(fmt.Errorf("%d files for the tool, %d is the most", len(files), maxFiles))
	}
	return files, nil
}

// readFilesBelow reads a directory. Links are not followed.
func readFilesBelow(dir string) ([]sandbox.File, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var files []sandbox.File
	err = filepath.WalkDir(abs, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != abs && (strings.HasPrefix(d.Name(), ".") || d.Name() == "__pycache__" ||
			d.Name() == "node_modules"):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		case len(files) == maxFiles:
			return fmt.Errorf("there are more than %d files in it", maxFiles)
		}
		b, err := readBounded(name, maxFile)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(abs), name)
		if err != nil {
			return err
		}
		files = append(files, sandbox.File{Name: filepath.ToSlash(rel), Data: b})
		return nil
	})
	return files, err
}
