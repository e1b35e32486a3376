package main

import (
	"errors"
	"fmt"
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
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}, {"", 1}}

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

// readFiles reads the files that are handed to a tool.
func readFiles(names []string) ([]sandbox.File, error) {
	var files []sandbox.File
	for _, name := range names {
		b, err := readBounded(name, maxFile)
		if err != nil {
			return nil, usage(fmt.Errorf("read a file for the tool: %w", err))
		}
		files = append(files, sandbox.File{Name: filepath.Base(name), Data: b})
	}
	return files, nil
}
