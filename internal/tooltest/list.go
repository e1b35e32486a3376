package tooltest

import (
	"fmt"

	"haft/internal/cli"
)

// A Listed is a case of a test file that is not run now, for programs that show cases before they run them.
type Listed struct {
	File string   `json:"file"`
	Line int      `json:"line"`
	Name string   `json:"name"`
	Tags []string `json:"tags,omitempty"`
	// Skip says why the case will be left out.
	Skip string `json:"skip,omitempty"`
	// Generated says that this stands for all cases that are made of the schema.
	Generated bool `json:"generated,omitempty"`
}

// list prints the cases of files that the flags choose.
func (f *flags) list(p *cli.Profile, paths []string) error {
	r := &runner{cfg: &f.cfg}
	list := []Listed{}
	for _, path := range paths {
		file, err := Load(path)
		if err != nil {
			return err
		}
		for i := range file.Cases {
			if c := &file.Cases[i]; r.chosen(file, c) {
				list = append(list, Listed{File: path, Line: c.At.Line, Name: c.Name, Tags: c.Tags, Skip: c.Skip})
			}
		}
		if file.Generated.Count != 0 {
			list = append(list, Listed{File: path, Line: 1, Name: "generated", Generated: true})
		}
	}
	return p.Print(list, func() {
		for _, l := range list {
			fmt.Fprintf(p.Out, "%s:%d: %s\n", l.File, l.Line, l.Name)
		}
	})
}
