// Package local confines commands on this machine with what the Linux kernel
// offers: namespaces, a minimal root, cgroups, seccomp, Landlock and limits.
//
// [Open] gives a [Provider]. What it can promise here is found by trying
// ([Provider.Isolation]); a step of confinement that fails ends the run with the
// step and its errno. [Init] must be called on the first line of main.
//
// # A run
//
// Haft starts itself again as the first process of new namespaces. That init
// carries out a list of steps that Haft compiled (package plan), starts the
// command, and waits. When it ends, the kernel ends everything in the pid
// namespace.
//
//	Haft                                     init (pid 1 inside)
//	  clone, exec /proc/self/exe ───────────►
//	  request{plan, argv, env} + descriptors ►  carries out the steps
//	                                         ◄─ failed{step, path, errno}, and ends
//	                                         ◄─ ready + the private directories
//	                                            starts the command
//	                                         ◄─ failed{exec, path, errno}, and ends
//	                                         ◄─ started
//	  signal{SIGTERM} ──────────────────────►   passes it to the command
//	                                         ◄─ limit{kind}, where no cgroup watches
//	                                         ◄─ ended{status, usage}, and ends
//	  SIGKILL ──────────────────────────────►   all is over
//
// The init ends, too, when its socket closes or its parent dies. With egress,
// ready brings its listener, too: see egress.
//
// A run with [sandbox.Spec.Observe] has a filter of system calls whose listener comes
// with ready, too: see observer.
//
// # A template
//
// A template is a run whose command is an interpreter with the program fork.py.
// It runs no tenant's code. For each sandbox it clones itself into new
// namespaces below its own; the child carries out its steps before it reads a
// byte of the call. Both do what Haft has compiled, without the interpreter (package
// forkprog). The child is the init's child (CLONE_PARENT), so that the
// init sees its end.
//
//	Haft                        template                    cell (pid 1 inside)
//	  order + descriptors ────►  clone3, all namespaces ──►  waits
//	                              writes the id maps       ─►  carries out the steps
//	                           ◄─ forked{pid} + pidfd
//	  ◄──────────────────────────────────────────────── failed{at, result}
//	  ◄──────────────────────────────────────────────── ready + private directories
//	                                                          closes all but 0–3
//	                                                          main(3)
//	  init: ended{pid, status, usage}
package local
