package checkpoint

import (
	"bytes"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// HashSize is the length of a hash of the tree in bytes.
const HashSize = 32

// LeafHash is the hash of a leaf: the SHA-256 of a zero byte and the leaf.
func LeafHash(leaf []byte) []byte { return rfc6962.DefaultHasher.HashLeaf(leaf) }

var ranges = &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// Tree is a Merkle tree that only grows, of which no more is held than its right edge.
type Tree struct {
	edge *compact.Range
}

// NewTree continues a tree of size leaves from its frontier; an empty one where size is 0.
func NewTree(size int64, frontier [][]byte) (*Tree, error) {
	edge, err := ranges.NewRange(0, uint64(size), frontier) //nolint:gosec // sizes are counts
	return &Tree{edge: edge}, err
}

// Size is how many leaves there are.
func (t *Tree) Size() int64 { return int64(t.edge.End()) } //nolint:gosec // it came from an int64

// Grow adds leaves by their hashes.
func (t *Tree) Grow(hashes ...[]byte) error {
	for _, h := range hashes {
		if err := t.edge.Append(h, nil); err != nil {
			return err
		}
	}
	return nil
}

// Root is the hash of the whole tree, of an empty one that of no bytes.
func (t *Tree) Root() ([]byte, error) {
	if t.edge.End() == 0 {
		return rfc6962.DefaultHasher.EmptyRoot(), nil
	}
	return t.edge.GetRootHash(nil)
}

// Frontier is what NewTree continues from.
func (t *Tree) Frontier() [][]byte {
	out := make([][]byte, len(t.edge.Hashes()))
	for i, h := range t.edge.Hashes() {
		out[i] = bytes.Clone(h)
	}
	return out
}

// GrowWithProof adds leaves and proves that the tree before is the beginning of the one after. It holds only the nodes that the
// proof is made of.
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
	for i, id := range compact.RangeNodes(0, before, nil) { // the part left of what is new
		visit(id, t.edge.Hashes()[i])
	}
	for _, h := range hashes {
		if err := t.edge.Append(h, visit); err != nil {
			return nil, err
		}
	}
	found := make([][]byte, len(nodes.IDs))
	for i, id := range nodes.IDs {
		found[i] = wanted[id]
	}
	return nodes.Rehash(found, rfc6962.DefaultHasher.HashChildren)
}

// Extends reports an error unless proof shows that the log of before is the beginning of that of c.
func (c Checkpoint) Extends(before Checkpoint, consistency [][]byte) error {
	if before.Size == 0 { // every log begins with the empty one
		return nil
	}
	return proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(before.Size), uint64(c.Size), //nolint:gosec // sizes are counts
		consistency, before.Root, c.Root)
}
