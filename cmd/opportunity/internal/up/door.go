package up

import (
	"net"
	"sync"
)

// door is the admin listener as the gateway gets it. It serves the process itself from the beginning, through inside, and
// everybody else from the moment it is opened: a probe of /readyz during a first start waits, connected, until the sample is
// in and the demo keys are written.
type door struct {
	net.Listener // everybody else's

	inside net.Listener
	opened chan struct{}
	conns  chan accepted
	closed chan struct{}
	once   sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func newDoor(outside, inside net.Listener) *door {
	d := &door{
		Listener: outside, inside: inside,
		opened: make(chan struct{}), conns: make(chan accepted), closed: make(chan struct{}),
	}
	go d.accept(inside)
	go func() {
		select {
		case <-d.opened:
			d.accept(outside)
		case <-d.closed:
		}
	}()
	return d
}

// open lets everybody in. It is called once.
func (d *door) open() { close(d.opened) }

func (d *door) accept(from net.Listener) {
	for {
		conn, err := from.Accept()
		select {
		case d.conns <- accepted{conn, err}:
		case <-d.closed:
			if err == nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept waits for a connection from either side.
func (d *door) Accept() (net.Conn, error) {
	select {
	case a := <-d.conns:
		return a.conn, a.err
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close closes both sides.
func (d *door) Close() error {
	err := net.ErrClosed
	d.once.Do(func() {
		close(d.closed)
		_ = d.inside.Close()
		err = d.Listener.Close()
	})
	return err
}
