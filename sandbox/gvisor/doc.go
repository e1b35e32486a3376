// Package gvisor runs commands on a kernel of their own: gVisor's, which serves their system calls in user space.
//
// A run is a sandbox of package local, with all its namespaces, limits and its removal, in which the command is
// gVisor's program runsc, without any privilege. Runsc makes its own namespaces there and runs the command of the
// run, whose system calls reach gVisor's kernel and never the host's. A weakness of one of the two is not enough to
// reach the host.
//
//	Haft ── local sandbox: namespaces, cgroup, quota, egress listener
//	          └─ runsc run ── gofer: opens what the sandbox of local mounted
//	                       └─ sentry: the kernel; the command and all that it starts
//
// Runsc is not part of Haft. [Find] looks for it, and [Install] builds the version that Haft was tested with.
package gvisor
