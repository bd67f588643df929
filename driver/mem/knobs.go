package mem

import (
	"time"

	"github.com/drover-run/drover/driver"
)

// Kill ends one agent without a word. An agent there is not, or that is not
// alive, is let be.
func (d *Driver) Kill(h driver.Handle, index int) {
	d.end(h, index, driver.Lost, "gone without a word", ErrKilled)
}

// Take takes one agent's machine away: an interruption.
func (d *Driver) Take(h driver.Handle, index int) {
	d.end(h, index, driver.Taken, "the machine was taken away", ErrTaken)
}

func (d *Driver) end(h driver.Handle, index int, s driver.State, reason string, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.placements[h]
	if p == nil || index < 0 || index >= len(p.agents) {
		return
	}
	p.agents[index].die(s, reason, cause)
	d.sweep(h, p)
}

// Warn has the engine say to one agent that its machine is about to go.
func (d *Driver) Warn(h driver.Handle, index int, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.placements[h]; p != nil && index >= 0 && index < len(p.agents) {
		a := p.agents[index]
		a.why = driver.Notice{Why: why}
		a.cancel(ErrTaken)
	}
}

// Allocation is what one agent was given; of one there is not it knows nothing.
func (d *Driver) Allocation(h driver.Handle, index int) *driver.Allocation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.placements[h]; p != nil && index >= 0 && index < len(p.agents) {
		return p.agents[index].given
	}
	return &driver.Allocation{}
}

// Refuse makes the next Start return err and do nothing.
func (d *Driver) Refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refusal = err
}

// SetPrice makes each Offer cost p. With a price of spot capacity the place has such.
func (d *Driver) SetPrice(p driver.Price) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.price = p
}

// Offers is how often Offer was asked.
func (d *Driver) Offers() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offers
}

// MoveTo makes the place that no Detail means: agents are there that are started from now on.
func (d *Driver) MoveTo(site string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.site = site
}

// LoseAnswer makes the next Start happen and return a fault of kind Lost.
func (d *Driver) LoseAnswer() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = true
}

// Spoil makes the agents of the next placement never come up, for this reason.
func (d *Driver) Spoil(reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spoilt = reason
}

// Pass lets time pass for agents that were asked to stop: it kills those that have used
// up their grace.
func (d *Driver) Pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h, p := range d.placements {
		for _, a := range p.agents {
			if !a.asked {
				continue
			}
			if a.left -= by; a.left <= 0 {
				a.die(driver.Ended, "stopped: killed after its grace", ErrKilled)
			}
		}
		d.sweep(h, p)
	}
}

// Killed is closed once an agent is dead, or has ended. An agent that was asked
// to stop and goes on working watches it. For one there is not it is closed.
func (d *Driver) Killed(h driver.Handle, index int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.placements[h]; p != nil && index >= 0 && index < len(p.agents) {
		return p.agents[index].killed
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}
