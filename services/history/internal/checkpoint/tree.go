package checkpoint

import (
	"bytes"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// HashSize is the length in bytes of a hash in the tree.
const HashSize = 32

// LeafHash returns the hash of a leaf: the SHA-256 of a zero byte and the leaf.
func LeafHash(leaf []byte) []byte { return rfc6962.DefaultHasher.HashLeaf(leaf) }

var ranges = &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// Tree is an append-only Merkle tree. It holds only its right edge in memory.
type Tree struct {
	edge *compact.Range
}

// NewTree returns a tree of size leaves, restored from its frontier. Size 0 is the empty tree.
func NewTree(size int64, frontier [][]byte) (*Tree, error) {
	edge, err := ranges.NewRange(0, uint64(size), frontier) //nolint:gosec // sizes are counts
	return &Tree{edge: edge}, err
}

// Size returns the number of leaves.
func (t *Tree) Size() int64 { return int64(t.edge.End()) } //nolint:gosec // it came from an int64

// Grow appends leaves, given as their hashes.
func (t *Tree) Grow(hashes ...[]byte) error {
	for _, h := range hashes {
		if err := t.edge.Append(h, nil); err != nil {
			return err
		}
	}
	return nil
}

// Root returns the hash of the whole tree. The hash of an empty tree is the SHA-256 of no bytes.
func (t *Tree) Root() ([]byte, error) {
	if t.edge.End() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	return t.edge.GetRootHash(nil)
}

// Frontier returns the hashes from which NewTree restores the tree.
func (t *Tree) Frontier() [][]byte {
	out := make([][]byte, len(t.edge.Hashes()))
	for i, h := range t.edge.Hashes() {
		out[i] = bytes.Clone(h)
	}
	return out
}

// GrowWithProof appends leaves and returns a proof that the new tree extends the old one. It holds only the nodes of the proof.
func (t *Tree) GrowWithProof(hashes [][]byte) (consistency [][]byte, err error) {
	before := t.edge.End()
	nodes, err := proof.Consistency(before, before+uint64(len(hashes)))
	if err != nil {
		return nil, err
	}
	wanted := make(map[compact.NodeID][]byte, len(nodes.IDs))
	for _, id := range nodes.IDs {
		wanted[id] = nil
	}
	visit := func(id compact.NodeID, hash []byte) {
		if _, ok := wanted[id]; ok {
			wanted[id] = bytes.Clone(hash)
		}
	}
	for i, id := range compact.RangeNodes(0, before, nil) { // the old leaves
		visit(id, t.edge.Hashes()[i])
	}
	for _, h := range hashes {
		if err := t.edge.Append(h, visit); err != nil {
			return nil, err
		}
	}
	path := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		path[i] = wanted[id]
	}
	return nodes.Rehash(path, rfc6962.DefaultHasher.HashChildren)
}

// Extends returns an error unless consistency proves that the log of c extends the log of before.
func (c Checkpoint) Extends(before Checkpoint, consistency [][]byte) error {
	if before.Size == 0 { // every log extends the empty log
		return nil
	}
	return proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(before.Size), uint64(c.Size), //nolint:gosec // sizes are counts
		consistency, before.Root, c.Root)
}
