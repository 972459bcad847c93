"""Labels in linked rows as cuts of Gaussian variables: pairs of rows tell Σ, draws tell the moments.

After Chen and Zhou (2025), "Causal discovery on dependent binary data", and their sequel on mixed data.
"""
