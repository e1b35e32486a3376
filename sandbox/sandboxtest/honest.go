package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"haft"
	"haft/sandbox"
)

// honestCases are programs that mean no harm.
func honestCases() []Case {
	return slices.Concat(streamCases(), placeCases(), workCases())
}

// streamCases are about what goes in and comes out.
func streamCases() []Case {
	return []Case{{
		Name: "stdout_stderr_and_channel_are_told_apart", Group: Honest,
		Story:   "What is written to descriptors 1, 2 and 3 arrives, each where it belongs.",
		Program: sh(`echo out; echo err >&2; echo three >&3`),
		Check: all(prints("out\n"), func(o Outcome) error {
			return want("stderr and channel", o.Stderr+o.Channel, "err\nthree\n")
		}),
	}, {
		Name: "channel_goes_both_ways", Group: Honest,
		Story: "What the caller sends over the channel is read from descriptor 3.",
		Do:    channelEcho,
	}, {
		Name: "exit_code_is_told", Group: Honest,
		Story: "A program that exits with 7 has exit code 7.", Program: sh(`exit 7`), Check: exits(7),
	}, {
		Name: "exit_code_255_is_told", Group: Honest,
		Story: "The largest exit code is no special case.", Program: sh(`exit 255`), Check: exits(255),
	}, {
		Name: "signal_is_told", Group: Honest,
		Story: "A program that crashes has the signal in its exit.", Program: py(`ctypes.string_at(0)`),
		Check: all(caused(sandbox.CauseSignal), func(o Outcome) error {
			return want("signal", fmt.Sprint(o.Exit.Signal), fmt.Sprint(int(syscall.SIGSEGV)))
		}),
	}, {
		Name: "stdin_is_read_to_its_end", Group: Honest,
		Story: "The input arrives whole and then ends.", Program: sh(`cat`),
		Spec:  func(s *sandbox.Spec) { s.Stdin = strings.NewReader(strings.Repeat("0123456789", 30000)) },
		Check: prints(strings.Repeat("0123456789", 30000)),
	}, {
		Name: "stdin_is_empty_if_none_is_given", Group: Honest,
		Story:   "Without an input, reading gives the end at once and not the engine's terminal.",
		Program: sh(`cat; echo end`),
		Check:   prints("end\n"),
	}, {
		Name: "unread_stdin_does_not_hang", Group: Honest,
		Story: "A program that ignores a large input ends all the same.", Program: sh(`echo done`),
		Spec:  func(s *sandbox.Spec) { s.Stdin = bytes.NewReader(make([]byte, 4<<20)) },
		Check: prints("done\n"),
	}, {
		Name: "output_up_to_the_limit_is_whole", Group: Honest,
		Story:   "Output of exactly the limit is not cut.",
		Program: py(`os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)`),
		Spec:    limits(func(l *haft.Limits) { l.Stdout, l.Stderr = 65536, 65536 }),
		Check: all(exits(0), func(o Outcome) error {
			if o.Exit.DroppedStdout != 0 || o.Exit.DroppedStderr != 0 || len(o.Stdout) != 65536 ||
				len(o.Stderr) != 65536 {
				return fmt.Errorf("%d and %d bytes arrived, %d and %d were dropped", len(o.Stdout), len(o.Stderr),
					o.Exit.DroppedStdout, o.Exit.DroppedStderr)
			}
			return nil
		}),
	}, {
		Name: "output_beyond_the_limit_is_counted", Group: Honest,
		Story:   "What is beyond the limit is dropped and counted to the byte.",
		Program: py(`os.write(1, b'x' * 5000); os.write(2, b'y' * 3000)`),
		Spec:    limits(func(l *haft.Limits) { l.Stdout, l.Stderr = 1000, 2000 }),
		Check: func(o Outcome) error {
			if o.Err != nil || len(o.Stdout) != 1000 || len(o.Stderr) != 2000 || o.Exit.DroppedStdout != 4000 ||
				o.Exit.DroppedStderr != 1000 {
				return fmt.Errorf("kept %d and %d, dropped %d and %d, want 1000, 2000, 4000, 1000", len(o.Stdout),
					len(o.Stderr), o.Exit.DroppedStdout, o.Exit.DroppedStderr)
			}
			return nil
		},
	}}
}

// placeCases are about what a program finds when it starts.
func placeCases() []Case {
	return []Case{{
		Name: "environment_is_exactly_what_was_given", Group: Honest,
		Story: "The environment holds what the spec says, in full, and nothing of the engine's.",
		Program: py("for k in sorted(os.environb): say(k.decode() + '=' + os.environb[k].decode('utf-8', " +
			"'surrogateescape'))"),
		Spec: func(s *sandbox.Spec) { s.Env = []string{"B=two words", "A=", "C=ünï=x"} },
		Check: all(exits(0), func(o Outcome) error {
			// CPython itself sets LC_CTYPE where it coerces the C locale. Without a
			// /tmp of its own, a provider may have to say where else it is.
			lines := slices.DeleteFunc(strings.Split(o.Stdout, "\n"), func(l string) bool {
				return l == "LC_CTYPE=C.UTF-8" || strings.HasPrefix(l, "TMPDIR=") &&
					!o.Exit.Isolation.Has(haft.ControlMountNS)
			})
			return want("environment", strings.Join(lines, "\n"), "A=\nB=two words\nC=ünï=x\n")
		}),
	}, {
		Name: "environment_can_be_empty", Group: Honest,
		Story: "An empty environment is empty.", Program: sh(`cat /proc/self/environ 2>/dev/null; echo end`),
		Spec: func(s *sandbox.Spec) { s.Env = nil },
		Check: all(exits(0), func(o Outcome) error {
			// The shell itself exports PWD.
			if got := strings.ReplaceAll(o.Stdout, "\x00", " "); strings.Count(got, "=") > 1 ||
				strings.Count(got, "=") == 1 && !strings.HasPrefix(got, "PWD=") {
				return fmt.Errorf("the environment is %q", got)
			}
			return nil
		}),
	}, {
		Name: "starts_in_its_work_directory", Group: Honest,
		Story:   "The current directory is the work directory, and it can be written to.",
		Program: sh(`echo x > made && cat made && ls -d out`),
		Check:   prints("x\nout\n"),
	}, {
		Name: "work_directory_is_slash_work", Group: Honest, Needs: controls(haft.ControlMountNS),
		Story: "With a view of its own, the work directory is called /work.", Program: sh(`pwd`),
		Check: prints("/work\n"),
	}, {
		Name: "tmp_can_be_written", Group: Honest, Needs: controls(haft.ControlMountNS),
		Story:   "There is a /tmp for temporary files, and it begins empty.",
		Program: sh(`ls -A /tmp; echo x > /tmp/f && cat /tmp/f`), Check: prints("x\n"),
	}}
}

// workCases are about what a program is given and leaves, and ordinary work.
func workCases() []Case {
	return []Case{{
		Name: "files_come_in", Group: Honest,
		Story:   "Files are there with their content and mode, in directories, with any name.",
		Program: sh(`cat plain dir/sub/deep "ünï 日本" -- -rf "new` + "\n" + `line"; ./run`),
		Spec: func(s *sandbox.Spec) {
			s.Files = []sandbox.File{
				{Name: "plain", Data: []byte("1\n")}, {Name: "dir/sub/deep", Data: []byte("2\n")},
				{Name: "ünï 日本", Data: []byte("3\n")}, {Name: "-rf", Data: []byte("4\n")},
				{Name: "new\nline", Data: []byte("5\n")},
				{Name: "run", Data: []byte("#!/bin/sh\necho 6\n"), Mode: 0o755},
			}
		},
		Check: prints("1\n2\n3\n4\n5\n6\n"),
	}, {
		Name: "artifacts_come_out", Group: Honest,
		Story: "Regular files in out come back with name, size and content, also from directories.",
		Program: sh(
			`printf hello > out/a.txt; mkdir out/d; printf '\211PNG\r\n\032\n' > out/d/b.png; printf x > "out/ünï 日本"; : > out/empty`),
		Spec: func(s *sandbox.Spec) { s.Collect = true },
		Check: all(exits(0), func(o Outcome) error {
			return want("artifacts", describe(o), "a.txt:5 d/b.png:8 empty:0 ünï 日本:1")
		}),
	}, {
		Name: "artifacts_are_not_collected_unasked", Group: Honest,
		Story: "Without Collect nothing comes back.", Program: sh(`echo x > out/a`),
		Check: all(exits(0), func(o Outcome) error { return want("artifacts", describe(o), "") }),
	}, {
		Name: "usage_is_told", Group: Honest,
		Story: "Time on the clock, time on the processor and memory are in the exit, and plausible.",
		Program: py("b = bytearray(30 << 20)\nend = time.process_time() + 0.15\nwhile time.process_time() < end: " +
			"pass\ntime.sleep(0.1)"),
		Check: all(exits(0), func(o Outcome) error {
			u := o.Exit.Usage
			if u.CPU < haft.Millis(140e6) || u.Wall < haft.Millis(240e6) || u.Wall > haft.Millis(o.Took) ||
				u.MaxRSS < 30<<20 || u.MaxRSS > 200<<20 {
				return fmt.Errorf("usage is %+v after %v, with 30 MiB and 150 ms of work in 250 ms", u, o.Took)
			}
			return nil
		}),
	}, {
		Name: "children_and_pipes_work", Group: Honest,
		Story:   "Ordinary programs start others.",
		Program: sh(`seq 1 1000 | sort -rn | head -1; sh -c 'exit 3'; echo $?`), Check: prints("1000\n3\n"),
	}, {
		Name: "devices_of_every_day_work", Group: Honest,
		Story:   "The null, zero and random devices are there.",
		Program: sh(`echo gone > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c`),
		Check:   prints("4\n4\n"),
	}, {
		Name: "threads_and_subprocesses_work_in_python", Group: Honest,
		Story: "Threads, subprocesses and temporary files are ordinary work.",
		Program: py(`import subprocess, tempfile, threading
ts = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
with tempfile.TemporaryFile(dir='.') as f: f.write(b'x')
say(subprocess.run(['/bin/sh', '-c', 'echo child'], capture_output=True, text=True).stdout.strip())`),
		Check: prints("child\n"),
	}}
}

// describe names the artifacts with their sizes.
func describe(o Outcome) string {
	var list []string
	for _, a := range o.Exit.Artifacts {
		if a.Size != int64(len(a.Data)) || a.ContentType == "" {
			return fmt.Sprintf("%s has size %d, %d bytes and type %q", a.Name, a.Size, len(a.Data), a.ContentType)
		}
		list = append(list, fmt.Sprintf("%s:%d", a.Name, a.Size))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// want compares texts.
func want(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s: got %q, want %q", what, got, want)
	}
	return nil
}

// errSilent is for a check that has nothing to look at.
var errSilent = errors.New("the program said nothing")
