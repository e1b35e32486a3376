package sandboxtest

import (
	"errors"
	"strings"

	"haft"
)

// dial is the beginning of a program that connects.
const dial = `
import socket
def split(a):
    h, p = a.rsplit(':', 1); return h.strip('[]'), int(p)
def tcp(host, port, family=socket.AF_INET):
    def go():
        s = socket.socket(family); s.settimeout(0.7); s.connect((host, port)); return s.recv(64)
    return go
def udp(host, port, family=socket.AF_INET):
    def go():
        # A datagram that nobody takes is only refused to a socket that asks again.
        s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(0.7); s.connect((host, port)); s.send(b'x'); return s.recv(64)
    return go
h4, p4 = split(E['TCP4']); hl, pl = split(E['LAN']); hu, pu = split(E['UDP'])
p6 = split(E['TCP6'])[1] if E['TCP6'] else p4
`

// networkCases try to reach something while the network is off.
func networkCases() []Case {
	off := controls(haft.ControlNetNS)
	row := func(name, story, source string, names ...string) Case {
		return Case{
			Name: name, Group: Networking, Needs: off, Story: story,
			Program: py(dial + source), Check: refused(deniedRoute, names...),
		}
	}
	return []Case{
		row("loopback_of_the_host_is_not_reached",
			"A service that listens on the host's loopback, such as the engine itself, is not there, however it is "+
				"spelled.", `
for i, h in enumerate((h4, '127.1', '0x7f.1', '2130706433', '0.0.0.0', '127.0.0.2')):
    attempt('tcp%d' % i, tcp(socket.inet_ntoa(socket.inet_aton(h)), p4))
attempt('udp', udp(hu, pu))`, "tcp0", "tcp3", "tcp4", "udp"),
		row("loopback_of_the_host_is_not_reached_by_ipv6", "Nor by IPv6, nor by IPv4 in IPv6.", `
attempt('six', tcp('::1', p6, socket.AF_INET6))
attempt('mapped', tcp('::ffff:127.0.0.1', p4, socket.AF_INET6))
attempt('any', tcp('::', p6, socket.AF_INET6))`, "six", "mapped", "any"),
		row("address_of_the_host_is_not_reached", "The host's address in its own network is not there.", `
attempt('lan', tcp(hl, pl))`, "lan"),
		row("metadata_services_are_not_reached", "The services that hand out a cloud's credentials are not there.", `
for a in ('169.254.169.254', '100.100.100.200', '168.63.129.16', '169.254.170.2', '192.0.0.192'): attempt(a, tcp(a, 80))
attempt('six', tcp('fd00:ec2::254', 80, socket.AF_INET6))`, "169.254.169.254", "six"),
		row("internet_is_not_reached", "There is no way out, by TCP or UDP, to any port.", `
for p in (53, 80, 443): attempt('tcp%d' % p, tcp('1.1.1.1', p))
attempt('quic', udp('1.1.1.1', 443)); attempt('six', tcp('2606:4700:4700::1111', 443, socket.AF_INET6))`, "tcp443", "quic", "six"),
		row("names_are_not_resolved", "No question leaves for a name server, by the library or by hand.", `
attempt('dns', udp('8.8.8.8', 53)); attempt('local', udp('127.0.0.53', 53)); attempt('mdns', udp('224.0.0.251', 5353))
def lookup():
    try: return socket.getaddrinfo('example.com', 80)
    except socket.gaierror: raise PermissionError(1, '')
attempt('lookup', lookup)`, "dns", "mdns", "lookup"),
		row("icmp_is_denied", "No pings, by raw sockets or by others.", `
def ping(kind):
    def go():
        s = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP); s.sendto(b'\x08\0\xf7\xff\0\0\0\0', ('1.1.1.1', 0))
    return go
attempt('raw', ping(socket.SOCK_RAW)); attempt('dgram', ping(socket.SOCK_DGRAM))`, "raw", "dgram"),
		row("abstract_sockets_of_the_host_are_not_reached",
			"Sockets without a file, such as those of a desktop or of a container daemon, are of another network.", `
def abstract():
    s = socket.socket(socket.AF_UNIX); s.connect('\0' + E['ABSTRACT'][1:]); return s.recv(64)
attempt('it', abstract)`, "it"),
		{
			Name: "sockets_of_the_host_are_not_reached_by_path", Group: Networking,
			Any: controls(haft.ControlRoot, haft.ControlSeccomp),
			Story: "Sockets in the file system are behind the wall of the file system, or no socket that connects " +
				"can be made.",
			Program: py(`import socket
def at(p):
    def go():
        s = socket.socket(socket.AF_UNIX); s.connect(p); return s.recv(64)
    return go
attempt('planted', at(E['SOCKET']))
attempt('root', at('/proc/1/root' + E['SOCKET']))
for p in ('/run/docker.sock', '/var/run/docker.sock', '/run/containerd/containerd.sock', '/run/dbus/system_bus_socket', '/run/systemd/private', '/dev/log'): attempt(p, at(p))`),
			Check: refused(append([]string{"ECONNREFUSED"}, deniedFile...), "planted", "root"),
		}, {
			Name: "socket_of_the_engine_is_not_reached", Group: Networking, Needs: controls(haft.ControlSeccomp),
			Story: "The engine serves its user on a socket in its directory. No way leads there in any mode, " +
				"also for a program with the same user: by path, through processes, opened, linked, by datagram " +
				"or without a file.",
			Program: py(`import socket
def at(p):
    def go():
        s = socket.socket(socket.AF_UNIX); s.connect(p); return s.recv(64)
    return go
def near(p):
    def go():
        os.chdir(os.path.dirname(p)); return at(os.path.basename(p))()
    return go
attempt('path', at(E['SOCKET']))
for pid in ('1', 'self', str(os.getppid()), E['HOST_PID']):
    for way in ('root', 'cwd' + '/..' * 9): attempt('proc', near('/proc/' + pid + '/' + way + E['SOCKET']))
def opened():
    fd = os.open(E['SOCKET'], os.O_PATH); return at('/proc/self/fd/%d' % fd)()
def linked():
    os.symlink(E['SOCKET'], 'link')
    try: return at('link')()
    finally: os.unlink('link')
def datagram(kind):
    def go():
        a, b = socket.socketpair(socket.AF_UNIX, kind); a.sendto(b'x', E['SOCKET'])
    return go
attempt('opened', opened); attempt('linked', linked); attempt('moved', near(E['SOCKET']))
attempt('datagram', datagram(socket.SOCK_DGRAM))
attempt('abstract', at('\0' + E['SOCKET']))`),
			Check: refused(append([]string{"ECONNREFUSED"}, deniedFile...), "path", "proc", "opened", "linked", "moved",
				"datagram", "abstract"),
		}, {
			Name: "interfaces_of_the_host_are_not_seen", Group: Networking, Needs: off,
			Story: "There is no interface but perhaps a loopback, and no table that tells of the host's connections.",
			Program: py(`import socket
try: names = [n for _, n in socket.if_nameindex() if n != 'lo']
except OSError: names = []
say('interfaces', names)
for f in ('tcp', 'tcp6', 'udp', 'unix', 'route', 'arp', 'dev'):
    try: lines = open('/proc/net/' + f).read().splitlines()
    except OSError: continue
    for l in lines: say(f, l)`),
			Check: all(exits(0), func(o Outcome) error {
				if !strings.HasPrefix(o.Stdout, "interfaces []\n") {
					return errors.New("interfaces of the host are visible")
				}
				for _, bad := range []string{"eth0", "haft-case", " 0100007F:", "docker"} {
					if strings.Contains(o.Stdout, bad) {
						return errors.New("connections of the host are visible: " + bad)
					}
				}
				return nil
			}),
		},
	}
}
