package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"haft"
	"haft/sandbox"
)

// lasting exchanges more data with a program on its standard streams, and for longer, than
// a run allows by default, and then ends it.
func lasting(ctx context.Context, b *Bench) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdin, say := io.Pipe()
	output, stdout := io.Pipe()
	defer say.Close()
	defer output.Close()
	live, err := b.Start(ctx, py("for line in sys.stdin:\n    sys.stdout.write(line.strip() * 1000 + '\\n')\n    "+
		"sys.stdout.flush()"), func(s *sandbox.Spec) {
		s.Stdin, s.Stdout = stdin, stdout
		s.Limits = sandbox.Lasting(haft.Limits{})
	})
	if err != nil {
		return err
	}
	lines := bufio.NewReader(output)
	for i := range 300 { // of 16 KB each, which is more than is kept by default
		word := fmt.Sprintf("%016d", i)
		if _, err := io.WriteString(say, word+"\n"); err != nil {
			return fmt.Errorf("say: %w", err)
		}
		line, err := lines.ReadString('\n')
		if err != nil || line != strings.Repeat(word, 1000)+"\n" {
			return fmt.Errorf("answer %d has %d bytes: %w", i, len(line), err)
		}
	}
	cancel()
	// What the program prints at its end is not read.
	return errors.Join(say.Close(), output.Close(),
		want("the cause", string(live.Wait().Exit.Cause), string(sandbox.CauseCancelled)))
}
