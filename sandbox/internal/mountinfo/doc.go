// Package mountinfo reads the mounts that this process sees. It is Linux only.
package mountinfo
