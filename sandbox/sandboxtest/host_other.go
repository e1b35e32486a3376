//go:build !linux

package sandboxtest

import (
	"context"
	"fmt"
	"os"
)

// linux says that every kind of socket must be there.
const linux = false

// mountTable is nothing here: only Linux has mounts of one's own.
func mountTable() (string, error) { return "", nil }

// marked finds no process: there is no portable way to look.
func marked(string) ([]int, error) { return nil, nil }

// left finds no process: there is no portable way to look.
func left(string) error { return nil }

// cgroupsOf is nothing here.
func cgroupsOf(int) ([]string, error) { return nil, nil }

// openDescriptors counts ours.
func openDescriptors() (int, error) {
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0, fmt.Errorf("count descriptors: %w", err)
	}
	return len(list), nil
}

// removed finds nothing here.
func removed([]string) error { return nil }

// hostObjects is for Linux.
func hostObjects(context.Context, *Bench) error { return nil }

// stillServes is for Linux.
func stillServes() error { return nil }

// supervisorState is for Linux.
func supervisorState() (string, error) { return "", nil }
