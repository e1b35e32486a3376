package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"haft/internal/exit"
)

// WithOutput calls write with the file of --output, or with standard output if none is named.
func (p *Profile) WithOutput(name string, write func(io.Writer) error) (err error) {
	if name == "" {
		return write(p.Out)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return exit.Misuse(fmt.Errorf("write the export: %w", err))
	}
	return errors.Join(write(file), file.Close())
}
