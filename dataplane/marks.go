package dataplane

// DefaultMasqueradeMark is the mark of packets to masquerade unless a Node says
// otherwise: bit 14, as everybody expects it.
const DefaultMasqueradeMark uint32 = 1 << 14

// Marks are the values that backends write into the packet mark, under Mask.
// All other bits of the mark belong to others.
type Marks struct {
	Mask, Masquerade, Drop, Refuse uint32
}

// Marks returns the values for the node. They take two bits: that of
// MasqueradeMark and the next one up, or down when it is the highest.
func (n Node) Marks() Marks {
	bit := n.MasqueradeMark
	if bit == 0 {
		bit = DefaultMasqueradeMark
	}
	other := bit << 1
	if other == 0 {
		other = bit >> 1
	}
	return Marks{Mask: bit | other, Masquerade: bit, Drop: other, Refuse: bit | other}
}
