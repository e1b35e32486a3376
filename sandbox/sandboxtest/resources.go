package sandboxtest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"haft"
	"haft/sandbox"
)

// memoryCases use up memory, disk and descriptors.
func memoryCases() []Case {
	small := limits(func(l *haft.Limits) { l.Memory = 96 << 20 })
	roomy := limits(func(l *haft.Limits) { l.Memory, l.FileSize, l.Disk = 256<<20, 1<<30, 32<<20 })
	return append([]Case{{
		Name: "memory_bomb_hits_memory_limit", Group: Processes, Needs: controls(haft.ControlMemory), Spec: small,
		Story:   "A program that takes ever more memory ends with the limit of memory named, not with a bare signal.",
		Program: py("l = []\nwhile True: l.append(bytearray(4 << 20))"), Check: hits(haft.FailMemory),
	}, {
		Name: "touched_mapping_hits_memory_limit", Group: Processes, Needs: controls(haft.ControlMemory), Spec: small,
		Story:   "An anonymous mapping counts as its pages are touched.",
		Program: py("import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1"),
		Check:   hits(haft.FailMemory),
	}, {
		Name: "memory_of_children_counts_together", Group: Processes, Needs: controls(haft.ControlMemory), Spec: small,
		Story: "Memory cannot be multiplied by forking.",
		Program: py(`for _ in range(8):
    if os.fork() == 0:
        b = bytearray(b'x') * (40 << 20)
        time.sleep(2)
        os._exit(0)
bad = 0
for _ in range(8): bad |= os.wait()[1]
sys.exit(1 if bad else 0)`),
		Check: hits(haft.FailMemory),
	}, {
		Name: "memory_files_count_as_memory", Group: Processes, Needs: controls(haft.ControlMemory),
		Story: "Anonymous files in memory are not free.",
		Spec:  limits(func(l *haft.Limits) { l.Memory, l.FileSize = 96<<20, 1<<30 }),
		Program: py(`try: fd = os.memfd_create('x')
except OSError as e: say(errno.errorcode[e.errno]); sys.exit(0)
while True: os.write(fd, b'x' * (1 << 20))`),
		Check: func(o Outcome) error {
			if o.Exit.Cause == sandbox.CauseExit && (o.Stdout == "EPERM\n" || o.Stdout == "ENOSYS\n") {
				return nil
			}
			return hits(haft.FailMemory)(o)
		},
	}, {
		Name: "shared_memory_counts_as_memory", Group: Processes,
		Needs: controls(haft.ControlMemory, haft.ControlIPCNS), Spec: small,
		Story: "System V segments and shared mappings are not free.",
		Program: py(`import mmap
m = mmap.mmap(-1, 1 << 30, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
for i in range(0, 1 << 30, 4096): m[i] = 1`), Check: hits(haft.FailMemory),
	}, {
		Name: "one_large_allocation_fails", Group: Processes, Any: controls(haft.ControlMemory, haft.ControlRlimits),
		Spec:    small,
		Story:   "Eight gibibytes at once are refused, or the program is ended for them.",
		Program: py("try: b = bytearray(b'x') * (8 << 30)\nexcept MemoryError: say('MemoryError'); sys.exit(1)"),
		Check:   hitsOrPrints(haft.FailMemory, "MemoryError"),
	}, {
		Name: "full_tmp_hits_disk_limit", Group: Processes, Needs: controls(haft.ControlDisk), Spec: roomy,
		Story: "Files in /tmp are bounded.", Program: fill("/tmp/f"), Check: full,
	}, {
		Name: "full_work_directory_hits_disk_limit", Group: Processes, Needs: controls(haft.ControlDisk), Spec: roomy,
		Story: "Files in the work directory are bounded.", Program: fill("f"), Check: full,
	}, {
		Name: "full_out_directory_hits_disk_limit", Group: Processes, Needs: controls(haft.ControlDisk), Spec: roomy,
		Story: "Artifacts are bounded while they are made.", Program: fill("out/f"), Check: full,
	}, {
		Name: "full_shm_hits_a_limit", Group: Processes, Needs: controls(haft.ControlDisk, haft.ControlRoot),
		Spec:  roomy,
		Story: "Files in /dev/shm are bounded, if there is such a place.", Program: fill("/dev/shm/f"), Check: full,
	}}, countCases()...)
}

// fill writes to a file until it cannot, or until it is far too large.
func fill(path string) Program {
	return py(fmt.Sprintf(`import signal
try:
    with open(%q, 'wb', buffering=0) as f:
        for _ in range(200): f.write(b'x' * (1 << 20))
    say('unlimited')
except OSError as e: say(errno.errorcode[e.errno])`, path))
}

// full wants the disk to be full, or the limit to be named.
func full(o Outcome) error {
	for _, e := range []string{"ENOSPC", "EDQUOT", "ENOENT", "EACCES", "EROFS"} {
		if o.Err == nil && o.Exit.Cause == sandbox.CauseExit && o.Stdout == e+"\n" {
			return nil
		}
	}
	return hits(haft.FailDisk, haft.FailMemory)(o)
}

// countCases use up what is counted in pieces: inodes, descriptors and the like.
func countCases() []Case {
	return []Case{{
		Name: "tiny_files_hit_inode_limit", Group: Processes, Needs: controls(haft.ControlDisk),
		Story: "A million empty files are stopped by the limit of inodes, in every place that can be written to.",
		Program: py(`for d in ('.', 'out', '/tmp', '/dev/shm', '/dev', '/run', '/var/tmp', '/'):
    made = 0
    try:
        for i in range(3000):
            os.close(os.open('%s/haft-%d' % (d, i), os.O_CREAT | os.O_WRONLY)); made += 1
        say(d, 'unlimited')
    except OSError as e: say(d, errno.errorcode[e.errno])`),
		Check: func(o Outcome) error {
			if strings.Contains(o.Stdout, "unlimited") {
				return fmt.Errorf("3000 files were made with a limit of 512")
			}
			return hitsOrPrints(haft.FailInodes, "ENOSPC")(o)
		},
	}, {
		Name: "large_file_hits_file_size_limit", Group: Processes, Needs: controls(haft.ControlRlimits),
		Spec:  limits(func(l *haft.Limits) { l.FileSize, l.Disk = 1<<20, 64<<20 }),
		Story: "One file cannot be larger than its limit, not even as a hole.",
		Program: py("try: os.truncate(os.open('f', os.O_CREAT | os.O_WRONLY), 1 << 40); say('made')\nexcept OSError " +
			"as e: say(errno.errorcode[e.errno])"),
		Check: hitsOrPrints(haft.FailFileSize, "EFBIG"),
	}, {
		Name: "open_files_are_bounded", Group: Processes, Needs: controls(haft.ControlRlimits),
		Story: "A hundred thousand descriptors are stopped by the limit of open files.",
		Program: py(`n = 0
try:
    while n < 100000: os.open('/dev/null', os.O_RDONLY); n += 1
except OSError as e: say(errno.errorcode[e.errno], n <= 64)`),
		Check: hitsOrPrints(haft.FailOpenFiles, "EMFILE True"),
	}, {
		Name: "no_core_is_dumped", Group: Processes, Needs: controls(haft.ControlRlimits),
		Story:   "A crash leaves no memory on any disk.",
		Program: sh(`ulimit -c; ulimit -Hc; sh -c 'kill -SEGV $$' 2>/dev/null; ls`),
		Check:   prints("0\n0\nout\n"),
	}}
}

// outputCases abuse the output.
func outputCases() []Case {
	flood := func(s *sandbox.Spec) { s.Limits.Stdout, s.Limits.Stderr = 10000, 10000 }
	flooded := func(o Outcome) error {
		if o.Exit.Cause == sandbox.CauseLimit && o.Exit.Limit != haft.FailOutput && o.Exit.Limit != haft.FailCPU {
			return fmt.Errorf("the limit is %q", o.Exit.Limit)
		}
		if err := caused(sandbox.CauseExit, sandbox.CauseLimit)(o); err != nil {
			return err
		}
		if len(o.Stdout)+len(o.Stderr) != 10000 || o.Exit.DroppedStdout+o.Exit.DroppedStderr == 0 {
			return fmt.Errorf("%d and %d bytes were kept, %d and %d dropped", len(o.Stdout), len(o.Stderr),
				o.Exit.DroppedStdout, o.Exit.DroppedStderr)
		}
		return nil
	}
	raw := "\xff\xfe\x00\x1b]0;title\x07\x1b[2J\u202e\xc3\x28\r\n"
	return []Case{{
		Name: "flood_of_stdout_is_cut", Group: Processes, Spec: flood, Check: flooded,
		Story: "Output of 4 MB is kept up to the limit and otherwise counted.", Program: sh(`yes | head -c 4000000`),
	}, {
		Name: "flood_of_stderr_is_cut", Group: Processes, Spec: flood, Check: flooded,
		Story: "The same for stderr.", Program: sh(`yes | head -c 4000000 >&2`),
	}, {
		Name: "endless_line_is_cut", Group: Processes, Spec: flood, Check: flooded,
		Story:   "A line of 4 MB needs no more memory than the limit.",
		Program: py("for _ in range(64): os.write(1, b'x' * 65536)"),
	}, {
		Name: "flood_does_not_grow_the_engine", Group: Processes, Alone: true, Do: boundedFlood,
		Story: "However much a program writes, the engine's own memory stays as it is.",
	}, {
		Name: "bytes_come_out_as_they_are", Group: Processes,
		Story:   "Invalid UTF-8, NUL and escape sequences neither stop nor change the output at this level.",
		Program: py(fmt.Sprintf("os.write(1, bytes.fromhex('%x'))", raw)), Check: prints(raw),
	}, {
		Name: "closed_output_is_no_end", Group: Processes,
		Story:   "A program that closes stdout and stderr runs on.",
		Program: sh(`exec >&- 2>&-; sleep 0.1; echo alive >&3`),
		Check:   all(exits(0), func(o Outcome) error { return want("channel", o.Channel, "alive\n") }),
	}, {
		Name: "flooded_channel_is_the_callers_to_bound", Group: Processes,
		Spec:    limits(func(l *haft.Limits) { l.Wall = haft.Millis(400 * time.Millisecond) }),
		Story:   "A program that writes to the channel without end meets its deadline.",
		Program: py("while True: os.write(3, b'x' * 65536)"),
		Check:   caused(sandbox.CauseTimeout, sandbox.CauseLimit, sandbox.CauseSignal),
	}}
}

// boundedFlood looks at our own memory while a program writes without end to
// all three descriptors.
func boundedFlood(ctx context.Context, b *Bench) error {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	live, err := b.Start(ctx, py(`import threading
def flood(fd):
    while True: os.write(fd, b'x' * 65536)
for fd in (1, 2, 3): threading.Thread(target=flood, args=(fd,)).start()`), func(s *sandbox.Spec) {
		s.Limits.Wall, s.Limits.Stdout, s.Limits.Stderr = haft.Millis(600*time.Millisecond), 10000, 10000
	})
	if err != nil {
		return err
	}
	for done := false; !done; {
		select {
		case <-live.done:
			done = true
		case <-time.After(20 * time.Millisecond):
			most = max(most, heap())
		}
	}
	o := live.Wait()
	if grown := int64(most) - int64(before); grown > 32<<20 {
		return fmt.Errorf("the engine grew by %d MiB", grown>>20)
	}
	// One of them may have been ended by the flood of the other before it began.
	if o.Exit.DroppedStdout == 0 && o.Exit.DroppedStderr == 0 {
		return fmt.Errorf("there was no flood: %v", o)
	}
	return caused(sandbox.CauseTimeout, sandbox.CauseLimit)(o)
}
