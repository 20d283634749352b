package gateway_test

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/service/servicetest"
)

// commandCounter is a proxy to Redis that counts commands.
type commandCounter struct {
	address string
	n       atomic.Int64
}

func (c *commandCounter) count() int { return int(c.n.Load()) }

func countCommands(t *testing.T, redis string) *commandCounter {
	t.Helper()
	ln := servicetest.Listen(t)
	c := &commandCounter{address: ln.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", redis)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			all.Go(func() { c.pass(in, out); out.Close() })
			all.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return c
}

// pass copies commands, each an array of bulk strings.
func (c *commandCounter) pass(in io.Reader, out io.Writer) {
	r := bufio.NewReader(in)
	for {
		head, err := r.ReadString('\n')
		if err != nil || head[0] != '*' {
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
		var command strings.Builder
		command.WriteString(head)
		name, key := "", ""
		for i := range n {
			size, err := r.ReadString('\n')
			if err != nil {
				return
			}
			length, _ := strconv.Atoi(strings.TrimSpace(size[1:]))
			text := make([]byte, length+2)
			if _, err := io.ReadFull(r, text); err != nil {
				return
			}
			switch i {
			case 0:
				name = strings.ToLower(string(text[:length]))
			case 1:
				key = string(text[:length])
			}
			command.WriteString(size)
			command.Write(text)
		}
		background := key == counter.Marks // read at intervals
		// the greeting of a new connection, and checks of readiness
		if !background && name != "hello" && name != "info" && name != "ping" {
			c.n.Add(1)
		}
		if _, err := io.WriteString(out, command.String()); err != nil {
			return
		}
	}
}
