package sandboxtest

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/process"
)

// A liar isolates nothing and promises everything.
type liar struct {
	*process.Provider
	promise haft.Isolation
	deaf    bool // to Spec.Need
}

func (l liar) Isolation(context.Context) (haft.Isolation, error) { return l.promise, nil }

func (l liar) Run(ctx context.Context, s sandbox.Spec) (sandbox.Exit, error) {
	if err := s.Need.Check(l.promise); err != nil && !l.deaf {
		return sandbox.Exit{}, err
	}
	s.Need = sandbox.Need{}
	if s.ServeEgress != nil {
		defer pretend(ctx, &s)()
	}
	exit, err := l.Provider.Run(ctx, s)
	exit.Isolation = l.promise
	return exit, err
}

// pretend serves egress on the loopback of the host, where there is one for all,
// and returns what ends it.
func pretend(ctx context.Context, s *sandbox.Spec) func() {
	serve := s.ServeEgress
	s.Network, s.ServeEgress = sandbox.NetworkNone, nil
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", sandbox.EgressAddr)
	if err != nil {
		return func() {} // somebody else serves it
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(ctx, conn)
		}
	}()
	return func() { _ = l.Close() }
}

// benchOf prepares a bench for a liar with these controls.
func benchOf(t *testing.T, promise haft.Isolation, deaf bool) *Bench {
	t.Helper()
	p, err := process.Open(process.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := openBench(t.Context(), liar{p, promise, deaf})
	if err != nil {
		t.Fatal(err)
	}
	if b.pythonErr != nil {
		Require(t, "python", b.pythonErr.Error())
	}
	t.Cleanup(func() {
		if err := b.host.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// The suite must be able to fail. These cases do no harm without a sandbox, root
// included, and each must find that there is none.
func TestConformance_catches_a_liar(t *testing.T) {
	b := benchOf(t, haft.Isolation{Level: haft.LevelNamespaces, Controls: haft.Controls()}, false)
	harmless := strings.Fields(`
		planted_files_of_the_engine_cannot_be_read host_directories_are_not_there paths_that_climb_stay_inside
		every_mount_is_harmless
		host_processes_are_not_visible load_of_the_host_is_not_told kernel_memory_and_symbols_are_hidden
		control_groups_and_sysfs_are_not_there
		user_namespace_is_its_own mnt_namespace_is_its_own pid_namespace_is_its_own net_namespace_is_its_own
		ipc_namespace_is_its_own uts_namespace_is_its_own cgroup_namespace_is_its_own time_namespace_is_its_own
		uptime_is_not_the_hosts is_not_root_of_the_host no_new_privileges_is_set system_calls_are_filtered
		capabilities_can_never_be_regained signals_do_not_reach_the_host
		init_of_the_sandbox_cannot_be_killed_to_flee
		unshare_user_is_denied io_uring_setup_is_denied userfaultfd_is_denied name_to_handle_at_is_denied
		keyctl_is_denied ptrace_traceme_is_denied process_vm_readv_is_denied pidfd_getfd_is_denied kcmp_is_denied
		quotactl_is_denied open_tree_is_denied personality_is_denied netlink_socket_is_denied
		loopback_of_the_host_is_not_reached address_of_the_host_is_not_reached
		abstract_sockets_of_the_host_are_not_reached sockets_of_the_host_are_not_reached_by_path
		socket_of_the_engine_is_not_reached
		interfaces_of_the_host_are_not_seen
		egress_is_the_only_address
		abstract_sockets_of_a_neighbour_are_not_reached ports_of_a_neighbour_are_not_reached
		processes_of_a_neighbour_are_not_seen doings_of_a_neighbour_are_not_watched locks_of_a_neighbour_are_not_felt`)
	if os.Geteuid() == 0 { // the permissions of devices refuse an ordinary user anyway
		harmless = append(harmless, "dev_holds_nothing_of_the_host")
	}
	cases := Cases()
	for _, name := range harmless {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
			if i < 0 {
				t.Fatal("there is no such case")
			}
			b.host.reached.Store(0)
			if v, err := b.judge(t.Context(), cases[i]); v != Broken {
				t.Errorf("judge = %s (%v), want %s", v, err, Broken)
			} else if strings.Contains(err.Error(), "did not run") || strings.Contains(err.Error(), "Traceback") {
				t.Errorf("it is broken for another reason: %v", err)
			}
		})
	}
}

func TestConformance_catches_what_is_left(t *testing.T) {
	b := benchOf(t, haft.Isolation{Level: haft.LevelNamespaces, Controls: haft.Controls()}, false)
	v, err := b.judge(t.Context(), Case{Program: py(daemon + "time.sleep(5)"), Check: exits(0)})
	if v != Broken || !strings.Contains(err.Error(), "processes are left") {
		t.Errorf("judge = %s (%v), want a process that is left", v, err)
	}
	v, err = b.judge(t.Context(), Case{Do: func(context.Context, *Bench) error {
		return os.WriteFile(b.host.canaries[0], []byte("changed"), 0o644)
	}})
	if v != Broken || !strings.Contains(err.Error(), "file of the host") {
		t.Errorf("judge = %s (%v), want a changed file", v, err)
	}
}

// Egress that could be gone around is refused, or else the suite fails.
func TestConformance_catches_egress_that_holds_nobody(t *testing.T) {
	b := benchOf(t, haft.Isolation{Level: haft.LevelNone}, false)
	if err := egressRefused(t.Context(), b); err == nil || !strings.Contains(err.Error(), "not refused") {
		t.Errorf("egressRefused = %v, want an error", err)
	}
}

func TestConformance_catches_silence(t *testing.T) {
	needy := Case{Needs: controls(haft.ControlSeccomp), Program: sh("exit 0"), Check: exits(0)}
	gap := []haft.Gap{{Control: haft.ControlSeccomp, Reason: "not here"}}
	tests := []struct {
		name    string
		promise haft.Isolation
		deaf    bool
		want    Verdict
	}{
		{"says what is missing and refuses it", haft.Isolation{Level: haft.LevelNone, Missing: gap}, false, Stated},
		{"does not say what is missing", haft.Isolation{Level: haft.LevelNone}, false, Broken},
		{"says it without a reason", haft.Isolation{Level: haft.LevelNone,
			Missing: []haft.Gap{{Control: haft.ControlSeccomp}}}, false, Broken},
		{"runs what demands it", haft.Isolation{Level: haft.LevelNone, Missing: gap}, true, Broken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if v, err := benchOf(t, tt.promise, tt.deaf).judge(t.Context(), needy); v != tt.want {
				t.Errorf("judge = %s (%v), want %s", v, err, tt.want)
			}
		})
	}
}
