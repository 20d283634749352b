package api

import "net/netip"

// IsLoopback reports whether host, a name or an IP address without a port, is this machine.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
