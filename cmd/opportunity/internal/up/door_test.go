package up

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed by the door
	require.NoError(t, err)
	return l
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // closed below
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A visitor who comes before the door is open is let in when it opens, behind those from inside.
func TestDoor(t *testing.T) {
	outside, inside := loopback(t), loopback(t)
	d := newDoor(outside, inside)
	defer d.Close()
	visitor := dial(t, outside)
	for range 3 {
		own := dial(t, inside)
		got, err := d.Accept()
		require.NoError(t, err)
		require.Equal(t, own.LocalAddr().String(), got.RemoteAddr().String())
	}
	d.open()
	got, err := d.Accept()
	require.NoError(t, err)
	require.Equal(t, visitor.LocalAddr().String(), got.RemoteAddr().String())
	require.Equal(t, outside.Addr(), d.Addr())
}

func TestClosedDoor(t *testing.T) {
	d := newDoor(loopback(t), loopback(t))
	require.NoError(t, d.Close())
	_, err := d.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, d.Close(), net.ErrClosed)
	_, err = net.DialTimeout("tcp", d.Addr().String(), time.Second) //nolint:noctx // must fail
	require.Error(t, err)
}

// Services end one stage after the other, in the opposite order of their start, each when the one before has ended.
func TestStagesEndInOrder(t *testing.T) {
	var ended []string
	started := make(chan string)
	svc := func(name string) service {
		return service{name, func(ctx context.Context) error {
			started <- name
			<-ctx.Done()
			ended = append(ended, name) // unguarded: the race detector holds the stages apart
			return nil
		}}
	}
	ctx, stop := context.WithCancel(t.Context())
	err := stages{{svc("ledger")}, {svc("catalog")}, {svc("gateway")}}.run(ctx, func(context.Context) error {
		for range 3 {
			<-started
		}
		stop()
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"gateway", "catalog", "ledger"}, ended)
}

// A service that fails ends all the others, and is the one that is named.
func TestOneFailureEndsAll(t *testing.T) {
	waits := service{"waits", func(ctx context.Context) error { <-ctx.Done(); return nil }}
	fails := service{"fails", func(context.Context) error { return net.ErrWriteToConnected }}
	err := stages{{waits}, {fails}}.run(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, net.ErrWriteToConnected)
	require.ErrorContains(t, err, "fails: ")
	require.NotContains(t, err.Error(), "canceled")
}
