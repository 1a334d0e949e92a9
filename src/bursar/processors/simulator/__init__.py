"""The simulated card processor and bank of test instances: another company, with its own address, pages and books."""
