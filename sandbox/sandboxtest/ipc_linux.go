package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// objects are System V objects of the host that everybody may use.
type objects struct {
	memory, queue, semaphore int
	bytes                    []byte // of the memory
}

// openObjects makes the objects.
func openObjects() (o *objects, err error) {
	o = &objects{memory: -1, queue: -1, semaphore: -1}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make objects of System V: %w", err), o.close())
		}
	}()
	if o.memory, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666); err != nil {
		return o, err
	}
	if o.bytes, err = unix.SysvShmAttach(o.memory, 0, 0); err != nil {
		return o, err
	}
	get := func(number, a, b, c uintptr) (int, error) {
		id, _, errno := unix.Syscall(number, a, b, c)
		if errno != 0 {
			return -1, errno
		}
		return int(id), nil
	}
	if o.queue, err = get(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o666, 0); err != nil {
		return o, err
	}
	o.semaphore, err = get(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o666)
	return o, err
}

// close removes the objects.
func (o *objects) close() error {
	var all []error
	if o.bytes != nil {
		all = append(all, unix.SysvShmDetach(o.bytes))
	}
	if o.memory >= 0 {
		_, err := unix.SysvShmCtl(o.memory, unix.IPC_RMID, nil)
		all = append(all, err)
	}
	for number, args := range map[uintptr][3]uintptr{
		unix.SYS_MSGCTL: {uintptr(o.queue), unix.IPC_RMID, 0},
		unix.SYS_SEMCTL: {uintptr(o.semaphore), 0, unix.IPC_RMID},
	} {
		if int(args[0]) < 0 {
			continue
		}
		if _, _, errno := unix.Syscall(number, args[0], args[1], args[2]); errno != 0 {
			all = append(all, errno)
		}
	}
	return errors.Join(all...)
}

// hostObjects has a program use objects of the host by their numbers, which it could also guess.
func hostObjects(ctx context.Context, b *Bench) error {
	objects, err := openObjects()
	if err != nil {
		return err
	}
	o := b.Run(ctx, py(fmt.Sprintf("SHM, MSG, SEM = %d, %d, %d\n", objects.memory, objects.queue, objects.semaphore)+
		useObjects), nil)
	ways := append([]string{"EINVAL", "EIDRM"}, deniedCall...) // EINVAL: there is no object with this number
	err = refused(ways, "shmat", "shmctl", "msgsnd", "msgrcv", "msgctl", "semop", "semtimedop", "semctl")(o)
	if err != nil {
		err = fmt.Errorf("%w\n\t%v", err, o)
	}
	if bytes.Contains(objects.bytes, []byte("x")) {
		err = errors.Join(err, errors.New("the memory of the host was written to"))
	}
	table, _ := os.ReadFile("/proc/sysvipc/msg") // key, id, mode, bytes, messages; a container may hide it
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && f[1] == fmt.Sprint(objects.queue) && f[4] != "0" {
			err = errors.Join(err, errors.New("a message of the program is in a queue of the host"))
		}
	}
	return errors.Join(err, objects.close())
}

// useObjects uses the objects SHM, MSG and SEM.
const useObjects = `import struct
def checked(r):
    if r in (-1, ctypes.c_void_p(-1).value): failed(ctypes.get_errno())
libc.shmat.restype = ctypes.c_void_p
def attach():
    at = libc.shmat(SHM, None, 0)
    checked(at)
    ctypes.memset(at, 120, 1)
buf = ctypes.create_string_buffer(struct.pack('l', 1) + b'x' * 1024)
op = ctypes.create_string_buffer(struct.pack('Hhh', 0, 1, 0o4000))
attempt('shmat', attach)
attempt('shmctl', lambda: checked(libc.shmctl(SHM, 2, buf)))
attempt('msgsnd', lambda: checked(libc.msgsnd(MSG, buf, 1, 0o4000)))
attempt('msgrcv', lambda: checked(libc.msgrcv(MSG, buf, 1, 0, 0o4000)))
attempt('msgctl', lambda: checked(libc.msgctl(MSG, 2, buf)))
attempt('semop', lambda: call('semop', SEM, op, 1) and None) # the library makes semtimedop of it
attempt('semtimedop', lambda: checked(libc.semtimedop(SEM, op, 1, None)))
attempt('semctl', lambda: checked(libc.semctl(SEM, 0, 12)))`
